// Uses every function of the layer for JavaScript.

import {
  Failure, apply, controller, emit, get, info, keyOf, kindOf, list, ownerReference, owns, remove, setCondition,
  updateStatus,
} from './homeostat.js';

const apiVersion = 'layers.example.dev/v1';

function part(whole, name) {
  const { name: of, namespace } = whole.metadata;
  const metadata = { name, namespace, labels: { of }, ownerReferences: [ownerReference(whole)] };
  return { apiVersion, kind: 'Part', metadata, spec: whole.spec };
}

export const reconciler = controller(
  {
    apiVersion,
    kind: 'Whole',
    plural: 'wholes',
    watches: [owns('parts', { apiVersion, kind: 'Part', plural: 'parts' })],
    resyncEveryMs: 3_600_000,
  },
  async (key) => {
    const whole = get(key);
    if (whole === undefined) return;
    const { text } = whole.spec;
    if (text === 'later') throw new Failure('not yet', { retryAfterMs: 5000 });
    const made = part(whole, `${key.name}-part`);
    const old = part(whole, `${key.name}-old`);
    if (get(keyOf(made)) === undefined) {
      apply(old);
      remove(keyOf(old));
      remove(keyOf(old));
      emit('Made', `made ${apply(made).metadata.name}`);
    }
    const selector = { namespace: key.namespace, labels: { of: key.name }, owner: whole.metadata.uid };
    const parts = [...list(kindOf(apiVersion, 'Part'), selector)].length;
    const about = { message: `${parts} part`, observedGeneration: whole.metadata.generation };
    let conditions = setCondition(whole.status?.conditions, { type: 'Seen', status: 'True', reason: 'Read', message: '' });
    conditions = setCondition(conditions, { type: 'Ready', status: 'True', reason: 'Counted', ...about });
    conditions = setCondition(conditions, { type: 'Short', status: text === 'x' ? 'True' : 'False', reason: 'Read', message: '' });
    updateStatus(key, { text, parts, conditions });
    info('counted', { parts });
    return 60_000;
  },
);
