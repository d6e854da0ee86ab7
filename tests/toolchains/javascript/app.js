// A controller in JavaScript, built by componentize-js without flags: it prints, draws randomness, and sends a request without a grant.

import { get, updateStatus } from 'homeostat:reconciler/store@0.1.0';
import { get as setting } from 'wasi:config/store@0.2.0-rc.1';

export const reconciler = {
  describe() {
    // A clock and randomness, which any library may read at startup.
    if (Date.now() !== 946684800000 || !(Math.random() >= 0)) throw new Error('this is no description');
    const kind = { group: 'lang.example.dev', version: 'v1', name: 'Note' };
    const manages = { kind, plural: 'notes', namespaced: true, keysOnly: false };
    return { manages, changes: 'but-status', watches: [], duringDelay: 'run-now' };
  },

  async reconcile(key) {
    const { text } = JSON.parse(get(key, 'whole').json).spec;
    console.log('read', text);
    if (text === 'crash') throw Object.assign(new Error('crashed on purpose'), { retry: { tag: 'backoff' } });
    let request;
    try {
      request = String((await fetch('http://10.0.0.1/')).status);
    } catch (error) {
      request = error.name;
    }
    const status = {
      by: 'JavaScript',
      text: text.toUpperCase(),
      random: Math.random(),
      time: Date.now() / 1000,
      setting: setting('greeting'),
      request,
    };
    updateStatus(key, JSON.stringify(status), {});
    return { tag: 'settled' };
  },
};
