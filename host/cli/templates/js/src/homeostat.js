// Resources as objects, and errors as exceptions: a thin layer over the host's interfaces in `wit`.

import { emit as emitEvent } from 'homeostat:reconciler/events@0.1.0';
import { write } from 'homeostat:reconciler/log@0.1.0';
import * as store from 'homeostat:reconciler/store@0.1.0';

/**
 * A resource.
 * @template Spec, Status
 * @typedef {{
 *   apiVersion: string,
 *   kind: string,
 *   metadata: { name: string, namespace?: string, uid?: string, generation?: number, labels?: Record<string, string> } & Record<string, unknown>,
 *   spec: Spec,
 *   status?: Status,
 * }} Resource
 */

/**
 * A statement about a resource: an item of `status.conditions`.
 * @typedef {{
 *   type: string,
 *   status: 'True' | 'False' | 'Unknown',
 *   reason: string,
 *   message: string,
 *   observedGeneration?: number,
 *   lastTransitionTime?: string,
 * }} Condition
 */

/** @typedef {{ group: string, version: string, name: string }} Kind */
/** @typedef {{ kind: Kind, namespace: string, name: string }} Key */

/**
 * A kind that a controller works with, and its names.
 * @typedef {{ apiVersion: string, kind: string, plural: string, namespaced?: boolean, schema?: object }} Declaration
 */

/** Items of one page of a list, at most: the host's own bound. */
const PAGE_ITEMS_MAX = 500;

/** The host refused a request. `reason` is the case, such as `not-found` or `conflict`. */
export class StoreError extends Error {
  /**
   * @param {string} reason
   * @param {string} message
   */
  constructor(reason, message) {
    super(`${reason}: ${message}`);
    this.name = 'StoreError';
    this.reason = reason;
  }
}

/** Ends a reconcile as failed. `retryAfterMs` replaces the backoff; `retry: false` parks the key. */
export class Failure extends Error {
  /**
   * @param {string} message
   * @param {{ retryAfterMs?: number, retry?: boolean }} [options]
   */
  constructor(message, { retryAfterMs, retry = true } = {}) {
    super(message);
    this.name = 'Failure';
    this.retryAfterMs = retryAfterMs;
    this.retry = retry;
  }
}

/**
 * Returns the export `reconciler` of a controller. Its own writes of a status do not run it again.
 *
 * `reconcile` returns nothing, or the milliseconds until it runs again. A `StoreError` that it does not catch is a failure
 * with backoff. Any other error ends the call as a trap, with its stack in the log.
 * @param {Declaration & { watches?: object[], resyncEveryMs?: number }} manages
 * @param {(key: Key) => number | void | Promise<number | void>} reconcile
 */
export function controller(manages, reconcile) {
  const { watches = [], resyncEveryMs } = manages;
  return {
    describe: () => ({
      manages: declaration(manages),
      changes: 'but-status',
      watches,
      resyncEvery: resyncEveryMs === undefined ? undefined : BigInt(resyncEveryMs),
      duringDelay: 'run-now',
    }),

    /** @param {Key} key */
    async reconcile(key) {
      let afterMs;
      try {
        afterMs = await reconcile(key);
      } catch (error) {
        throw failure(error);
      }
      return afterMs === undefined ? { tag: 'settled' } : { tag: 'again-after', val: BigInt(afterMs) };
    },
  };
}

/**
 * Returns a watch of resources that the controller writes, and that name their owner.
 * @param {string} name
 * @param {Declaration} of
 */
export function owns(name, of) {
  return { name, of: declaration(of), mapping: { tag: 'owner' }, changes: 'all', role: 'secondary' };
}

/**
 * Returns the owner reference that lets the host delete a resource after its owner.
 * @param {Resource<any, any>} owner
 */
export function ownerReference({ apiVersion, kind, metadata: { name, uid } }) {
  return { apiVersion, kind, name, uid, controller: true };
}

/**
 * Returns the key of a resource.
 * @param {Resource<any, any>} resource
 * @returns {Key}
 */
export function keyOf({ apiVersion, kind, metadata: { namespace = '', name } }) {
  return { kind: kindOf(apiVersion, kind), namespace, name };
}

/**
 * Returns the kind `name` of an `apiVersion`, such as `apps/v1`.
 * @param {string} apiVersion
 * @param {string} name
 * @returns {Kind}
 */
export function kindOf(apiVersion, name) {
  const slash = apiVersion.lastIndexOf('/');
  return { group: apiVersion.slice(0, Math.max(slash, 0)), version: apiVersion.slice(slash + 1), name };
}

/**
 * Returns the resource of `key`, or `undefined` if it does not exist. Throws `StoreError`.
 * @param {Key} key
 * @returns {Resource<any, any> | undefined}
 */
export function get(key) {
  try {
    return JSON.parse(call(() => store.get(key, 'whole')).json);
  } catch (error) {
    if (error instanceof StoreError && error.reason === 'not-found') return undefined;
    throw error;
  }
}

/**
 * Yields the resources of `kind`, page by page. `owner` is the uid of an owner. Throws `StoreError`.
 * @param {Kind} kind
 * @param {{ namespace?: string, labels?: Record<string, string>, owner?: string }} [selector]
 * @returns {Generator<Resource<any, any>>}
 */
export function* list(kind, { namespace, labels = {}, owner } = {}) {
  const requirements = Object.entries(labels).map((val) => ({ tag: /** @type {const} */ ('equals'), val }));
  const selector = { namespace, labels: requirements, fields: [], owner };
  /** @type {string | undefined} */
  let from;
  do {
    const start = from;
    /** @type {ReturnType<typeof store.list>} */
    const page = call(() => store.list(kind, selector, 'whole', PAGE_ITEMS_MAX, start));
    for (const item of page.items) yield JSON.parse(item.json);
    from = page.next;
  } while (from !== undefined);
}

/**
 * Applies the fields of a document, and returns the resource as stored. Throws `StoreError`.
 * @param {object} document
 * @param {{ force?: boolean }} [options]
 * @returns {Resource<any, any>}
 */
export function apply(document, { force = false } = {}) {
  return JSON.parse(call(() => store.apply(JSON.stringify(document), force)).json);
}

/**
 * Replaces the status of `key`, and returns the resource as stored. Throws `StoreError`.
 * @param {Key} key
 * @param {object} status
 * @returns {Resource<any, any>}
 */
export function updateStatus(key, status) {
  return JSON.parse(call(() => store.updateStatus(key, JSON.stringify(status), {})).json);
}

/**
 * Returns conditions with one of them set. `lastTransitionTime` stays as long as the status of the condition does, so an
 * equal condition changes nothing.
 * @param {Condition[] | undefined} conditions
 * @param {Condition} condition
 * @returns {Condition[]}
 */
export function setCondition(conditions = [], condition) {
  const former = conditions.find(({ type }) => type === condition.type);
  const since = former?.status === condition.status ? former.lastTransitionTime : undefined;
  const lastTransitionTime = since ?? new Date().toISOString().replace(/\.\d+Z$/, 'Z');
  const set = { ...condition, lastTransitionTime };
  return former === undefined ? [...conditions, set] : conditions.map((one) => (one === former ? set : one));
}

/**
 * Deletes `key`, and later what it owns. A resource that is gone already is no error. Throws `StoreError`.
 * @param {Key} key
 */
export function remove(key) {
  try {
    call(() => store.delete(key, {}, 'background'));
  } catch (error) {
    if (!(error instanceof StoreError && error.reason === 'not-found')) throw error;
  }
}

/**
 * Emits an event about the key of this reconcile. `reason` is one word in CamelCase.
 * @param {string} reason
 * @param {string} message
 * @param {'normal' | 'warning'} [severity]
 */
export function emit(reason, message, severity = 'normal') {
  emitEvent(severity, reason, message, undefined);
}

/**
 * Writes a line to the controller's log.
 * @param {string} message
 * @param {Record<string, unknown>} [fields]
 */
export function info(message, fields = {}) {
  write('info', message, Object.entries(fields).map(([name, value]) => [name, String(value)]));
}

/** @param {Declaration} declared */
function declaration({ apiVersion, kind, plural, namespaced = true, schema }) {
  const text = schema === undefined ? undefined : JSON.stringify(schema);
  return { kind: kindOf(apiVersion, kind), plural, namespaced, keysOnly: false, schema: text };
}

/**
 * Calls the host, and throws its errors as `StoreError`.
 * @template T
 * @param {() => T} request
 * @returns {T}
 */
function call(request) {
  try {
    return request();
  } catch (error) {
    // The bindings throw the error of the contract as the payload of an error.
    const { tag, val } = /** @type {any} */ (error)?.payload ?? {};
    throw tag === undefined ? error : new StoreError(tag, val);
  }
}

/**
 * Returns the failure of the contract for an error, or the error itself if it is a mistake of the program.
 * @param {unknown} error
 */
function failure(error) {
  if (error instanceof Failure) {
    /** @type {import('homeostat:reconciler/types@0.1.0').Retry} */
    let retry = { tag: 'backoff' };
    if (error.retryAfterMs !== undefined) retry = { tag: 'after', val: BigInt(error.retryAfterMs) };
    if (!error.retry) retry = { tag: 'never' };
    return { message: error.message, retry };
  }
  if (error instanceof StoreError) return { message: error.message, retry: { tag: 'backoff' } };
  return error;
}
