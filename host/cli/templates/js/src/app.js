// A controller that greets the name in each Greeting.

import { Failure, controller, get, updateStatus } from './homeostat.js';

/** @typedef {import('./homeostat.js').Resource<{name?: string}, {message: string}>} Greeting */

export const reconciler = controller(
  { apiVersion: '{{name}}.example.dev/v1', kind: 'Greeting', plural: 'greetings' },
  (key) => {
    // The key is all there is: the greeting may be gone by now.
    const greeting = /** @type {Greeting | undefined} */ (get(key));
    if (greeting === undefined) return;
    const { name } = greeting.spec;
    if (!name) {
      // Trying again cannot help: the key waits until its resource changes.
      throw new Failure('spec.name is empty', { retry: false });
    }
    updateStatus(key, { message: `Hello, ${name}!` });
  },
);
