// Uses a server as programs in JavaScript use a cluster: `@kubernetes/client-node` on its default settings. The arguments
// are a kubeconfig and the folder of the packages. Says `done` at the end.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';

// The packages are not beside this file.
const [kubeconfig, packages] = process.argv.slice(2);
const k8s = createRequire(`${packages}/`)('@kubernetes/client-node');

const SECONDS = 60;

const kc = new k8s.KubeConfig();
kc.loadFromFile(kubeconfig);
const core = kc.makeApiClient(k8s.CoreV1Api);
const apps = kc.makeApiClient(k8s.AppsV1Api);
const custom = kc.makeApiClient(k8s.CustomObjectsApi);
const objects = k8s.KubernetesObjectApi.makeApiClient(kc);

/** Waits for a promise, at most `SECONDS`. */
function bounded(what, promise) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`${what}: nothing after ${SECONDS} s`)), SECONDS * 1000);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Expects a call to be refused with a status code, and returns the body of the answer. */
async function refused(promise, code, reason) {
    try {
        await promise;
    } catch (error) {
        assert.equal(error.code, code, String(error));
        const body = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
        assert.equal(body.kind, 'Status');
        if (reason) assert.equal(body.reason, reason);
        return body;
    }
    assert.fail(`it is not answered with ${code}`);
}

const configMap = (name, more = {}) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, ...more });

function deployment(name, image) {
    const labels = { app: name };
    return {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { name, labels },
        spec: {
            replicas: 1,
            selector: { matchLabels: labels },
            template: {
                metadata: { labels },
                spec: { containers: [{ name: 'main', image, env: [{ name: 'A', value: '1' }] }] },
            },
        },
    };
}

// The client has its own names for some fields of its models.
const definition = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'crates.node.example.com' },
    spec: {
        group: 'node.example.com',
        scope: 'Namespaced',
        names: { plural: 'crates', singular: 'crate', kind: 'Crate' },
        versions: [{
            name: 'v1', served: true, storage: true, subresources: { status: {} },
            schema: {
                openAPIV3Schema: {
                    type: 'object',
                    properties: {
                        spec: {
                            type: 'object',
                            properties: { size: { type: 'integer', maximum: 9 }, color: { type: 'string', _default: 'red' } },
                        },
                        status: { type: 'object', x_kubernetes_preserve_unknown_fields: true },
                    },
                },
            },
        }],
    },
};

const checks = {
    async discovery() {
        const version = await kc.makeApiClient(k8s.VersionApi).getCode();
        assert.equal(version.major, '1');
        const groups = (await kc.makeApiClient(k8s.ApisApi).getAPIVersions()).groups;
        assert.ok(groups.some((group) => group.name === 'apps'));
        const resources = (await core.getAPIResources()).resources;
        assert.ok(resources.some((each) => each.name === 'pods' && each.shortNames[0] === 'po'));
        assert.equal(await new k8s.Health(kc).readyz({}), true);
        assert.equal(await new k8s.Health(kc).livez({}), true);
    },

    async typedCalls(namespace) {
        const body = configMap('a', { data: { x: '1' } });
        const made = await core.createNamespacedConfigMap({ namespace, body });
        assert.ok(made.metadata.creationTimestamp instanceof Date && made.metadata.uid);
        await refused(core.createNamespacedConfigMap({ namespace, body }), 409, 'AlreadyExists');
        made.data.y = '2';
        const changed = await core.replaceNamespacedConfigMap({ namespace, name: 'a', body: made });
        assert.deepEqual(changed.data, { x: '1', y: '2' });
        await refused(core.replaceNamespacedConfigMap({ namespace, name: 'a', body: made }), 409, 'Conflict');
        for (const name of ['b', 'c', 'd', 'e']) {
            const labels = { parity: name < 'd' ? 'low' : 'high' };
            await core.createNamespacedConfigMap({ namespace, body: { metadata: { name, labels } } });
        }
        const low = await core.listNamespacedConfigMap({ namespace, labelSelector: 'parity=low' });
        assert.deepEqual(low.items.map((item) => item.metadata.name), ['b', 'c']);
        const names = [];
        let page = { metadata: { _continue: undefined } };
        do {
            page = await core.listNamespacedConfigMap({ namespace, limit: 2, _continue: page.metadata._continue });
            names.push(...page.items.map((item) => item.metadata.name));
        } while (page.metadata._continue);
        assert.deepEqual(names, ['a', 'b', 'c', 'd', 'e']);
        const field = await core.listNamespacedConfigMap({ namespace, fieldSelector: 'metadata.name=c' });
        assert.equal(field.items.length, 1);
        await refused(core.listNamespacedConfigMap({ namespace, fieldSelector: 'data.x=1' }), 400);
        await refused(core.readNamespacedConfigMap({ namespace, name: 'none' }), 404, 'NotFound');
        const secret = { metadata: { name: 's' }, stringData: { a: 'text' } };
        const stored = await core.createNamespacedSecret({ namespace, body: secret });
        assert.deepEqual(stored.data, { a: 'dGV4dA==' });
        const gone = await core.deleteNamespacedConfigMap({ namespace, name: 'e', body: { propagationPolicy: 'Background' } });
        assert.equal(gone.status, 'Success');
        await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 'parity' });
        assert.equal((await core.listNamespacedConfigMap({ namespace })).items.length, 1);
        const pod = { metadata: { name: 'p' }, spec: { containers: [{ name: 'c', image: 'i' }] } };
        const pending = await core.createNamespacedPod({ namespace, body: pod });
        assert.equal(pending.status.phase, 'Pending');
        await refused(core.createNamespacedPod({ namespace, body: { metadata: { name: 'q' }, spec: {} } }), 422);
        const scale = { namespace, name: 'web' };
        await apps.createNamespacedDeployment({ namespace, body: deployment('web', 'app:1') });
        const current = await apps.readNamespacedDeploymentScale(scale);
        current.spec.replicas = 3;
        assert.equal((await apps.replaceNamespacedDeploymentScale({ ...scale, body: current })).spec.replicas, 3);
        const lease = { metadata: { name: 'lock' }, spec: { holderIdentity: 'me', renewTime: new k8s.V1MicroTime() } };
        const coordination = kc.makeApiClient(k8s.CoordinationV1Api);
        const held = await coordination.createNamespacedLease({ namespace, body: lease });
        assert.equal(held.spec.holderIdentity, 'me');
        const event = {
            metadata: { generateName: 'p-' }, reason: 'Tried', message: 'it was tried', type: 'Normal',
            involvedObject: { kind: 'Pod', name: 'p', namespace, uid: pending.metadata.uid },
        };
        await core.createNamespacedEvent({ namespace, body: event });
        const seen = await core.listNamespacedEvent({ namespace, fieldSelector: 'involvedObject.name=p' });
        assert.deepEqual(seen.items.map((item) => item.reason), ['Tried']);
    },

    async patches(namespace) {
        await apps.createNamespacedDeployment({ namespace, body: deployment('web', 'app:1') });
        const name = 'web';
        const patched = await apps.patchNamespacedDeployment({
            namespace, name, body: [{ op: 'replace', path: '/spec/replicas', value: 2 }],
        });
        assert.equal(patched.spec.replicas, 2);
        const as = (type) => k8s.setHeaderOptions('Content-Type', type);
        const containers = [{ name: 'main', env: [{ name: 'B', value: '2' }] }];
        const body = { spec: { template: { spec: { containers } } } };
        const strategic = await apps.patchNamespacedDeployment(
            { namespace, name, body }, as(k8s.PatchStrategy.StrategicMergePatch),
        );
        assert.deepEqual(strategic.spec.template.spec.containers[0].env.map((each) => each.name).sort(), ['A', 'B']);
        const merged = await apps.patchNamespacedDeployment(
            { namespace, name, body: { metadata: { labels: { app: null, b: 'c' } } } }, as(k8s.PatchStrategy.MergePatch),
        );
        assert.deepEqual(merged.metadata.labels, { b: 'c' });
        const apply = (image, manager, force) => apps.patchNamespacedDeployment(
            { namespace, name: 'applied', fieldManager: manager, force, body: deployment('applied', image) },
            as(k8s.PatchStrategy.ServerSideApply),
        );
        await apply('app:1', 'one');
        const conflict = await refused(apply('app:2', 'two'), 409, 'Conflict');
        assert.equal(conflict.details.causes[0].reason, 'FieldManagerConflict');
        assert.equal((await apply('app:2', 'two', true)).spec.template.spec.containers[0].image, 'app:2');
    },

    async watches(namespace) {
        const seen = [];
        const over = new Promise((resolve, reject) => {
            const path = `/api/v1/namespaces/${namespace}/configmaps`;
            const watching = new k8s.Watch(kc).watch(
                path, { allowWatchBookmarks: true },
                (type, object) => {
                    if (type !== 'BOOKMARK') seen.push(`${type} ${object.metadata.name}`);
                    if (type === 'DELETED') watching.then((controller) => controller.abort());
                },
                (error) => (!error || error.name === 'AbortError' ? resolve() : reject(error)),
            );
            watching.then(async () => {
                await core.createNamespacedConfigMap({ namespace, body: configMap('a') });
                const patch = [{ op: 'add', path: '/data', value: { x: '1' } }];
                await core.patchNamespacedConfigMap({ namespace, name: 'a', body: patch });
                await core.deleteNamespacedConfigMap({ namespace, name: 'a' });
            }).catch(reject);
        });
        await bounded('the watch', over);
        assert.deepEqual(seen, ['ADDED a', 'MODIFIED a', 'DELETED a']);
    },

    async informers(namespace) {
        await core.createNamespacedConfigMap({ namespace, body: configMap('old') });
        const list = () => core.listNamespacedConfigMap({ namespace });
        const informer = k8s.makeInformer(kc, `/api/v1/namespaces/${namespace}/configmaps`, list);
        const waiting = [];
        const next = (type, name) => new Promise((resolve) => waiting.push({ type, name, resolve }));
        for (const type of ['add', 'update', 'delete']) {
            informer.on(type, (object) => {
                for (const each of waiting.filter((each) => each.type === type && each.name === object.metadata.name)) {
                    each.resolve(object);
                }
            });
        }
        const errors = [];
        // The end of an informer is an error, too.
        informer.on('error', (error) => error.name === 'AbortError' || errors.push(error));
        const listed = next('add', 'old');
        await informer.start();
        await bounded('the list', listed);
        const added = next('add', 'new');
        await core.createNamespacedConfigMap({ namespace, body: configMap('new') });
        await bounded('an addition', added);
        const updated = next('update', 'new');
        const patch = [{ op: 'add', path: '/data', value: { x: '1' } }];
        await core.patchNamespacedConfigMap({ namespace, name: 'new', body: patch });
        assert.deepEqual((await bounded('an update', updated)).data, { x: '1' });
        assert.equal(informer.get('new', namespace).data.x, '1');
        const deleted = next('delete', 'old');
        await core.deleteNamespacedConfigMap({ namespace, name: 'old' });
        await bounded('a deletion', deleted);
        assert.deepEqual(informer.list(namespace).map((each) => each.metadata.name), ['new']);
        await informer.stop();
        assert.deepEqual(errors, []);
    },

    async objects(namespace) {
        const header = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'o', namespace } };
        const made = await objects.create({ ...header, data: { x: '1' } });
        assert.ok(made.metadata.creationTimestamp instanceof Date);
        assert.equal((await objects.read(header)).data.x, '1');
        // Its default is a strategic merge patch.
        assert.deepEqual((await objects.patch({ ...header, data: { y: '2' } })).data, { x: '1', y: '2' });
        const merged = await objects.patch(
            { ...header, data: { x: null } }, undefined, undefined, 'node', undefined, k8s.PatchStrategy.MergePatch,
        );
        assert.deepEqual(merged.data, { y: '2' });
        const applied = await objects.patch(
            { ...header, data: { z: '3' } }, undefined, undefined, 'node', true, k8s.PatchStrategy.ServerSideApply,
        );
        assert.deepEqual(applied.data, { y: '2', z: '3' });
        const replaced = await objects.replace({ ...applied, data: { w: '4' } });
        assert.deepEqual(replaced.data, { w: '4' });
        const tried = await objects.create({ ...header, metadata: { name: 'tried', namespace } }, undefined, 'All');
        assert.ok(tried.metadata.uid);
        const listed = await objects.list('v1', 'ConfigMap', namespace);
        assert.deepEqual(listed.items.map((item) => item.metadata.name), ['o']);
        const body = deployment('web', 'app:1');
        body.metadata.namespace = namespace;
        const web = await objects.create(body);
        const patched = await objects.patch({ ...body, spec: { replicas: 5 } });
        assert.equal(patched.spec.replicas, 5);
        assert.equal(patched.spec.template.spec.containers[0].image, 'app:1');
        const found = await objects.list('apps/v1', 'Deployment', namespace, undefined, undefined, undefined, undefined, 'app=web');
        assert.equal(found.items[0].metadata.uid, web.metadata.uid);
        assert.equal((await objects.delete(header)).status, 'Success');
        await refused(objects.read(header), 404, 'NotFound');
        await assert.rejects(objects.read({ apiVersion: 'v1', kind: 'Nothing', metadata: { name: 'o', namespace } }));
    },

    async customResources(namespace) {
        await objects.create(definition);
        const established = new Promise((resolve, reject) => {
            const watching = new k8s.Watch(kc).watch(
                '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
                { fieldSelector: `metadata.name=${definition.metadata.name}` },
                (_, object) => {
                    const is = (each) => each.type === 'Established' && each.status === 'True';
                    if (object.status?.conditions?.some(is)) watching.then((controller) => controller.abort());
                },
                (error) => (!error || error.name === 'AbortError' ? resolve() : reject(error)),
            );
        });
        await bounded('the kind', established);
        const kind = { group: 'node.example.com', version: 'v1', namespace, plural: 'crates' };
        const crate = (name, size) => ({
            apiVersion: 'node.example.com/v1', kind: 'Crate', metadata: { name, namespace }, spec: { size },
        });
        const made = await custom.createNamespacedCustomObject({ ...kind, body: crate('a', 1) });
        assert.deepEqual(made.spec, { size: 1, color: 'red' });
        const wrong = await refused(custom.createNamespacedCustomObject({ ...kind, body: crate('b', 10) }), 422, 'Invalid');
        assert.equal(wrong.details.causes[0].field, 'spec.size');
        const patch = [{ op: 'replace', path: '/spec/size', value: 2 }];
        assert.equal((await custom.patchNamespacedCustomObject({ ...kind, name: 'a', body: patch })).spec.size, 2);
        const status = await custom.patchNamespacedCustomObjectStatus({
            ...kind, name: 'a', body: [{ op: 'add', path: '/status', value: { ok: true } }],
        });
        assert.deepEqual(status.status, { ok: true });
        assert.equal((await custom.listNamespacedCustomObject(kind)).items.length, 1);
        const again = await objects.patch(
            { ...crate('a', 3) }, undefined, undefined, 'node', undefined, k8s.PatchStrategy.MergePatch,
        );
        assert.equal(again.spec.size, 3);
        // A custom resource has no strategic merge patch, which is the default here.
        await refused(objects.patch(crate('a', 4)), 415, 'UnsupportedMediaType');
        assert.equal((await objects.list('node.example.com/v1', 'Crate')).items.length, 1);
        await custom.deleteNamespacedCustomObject({ ...kind, name: 'a' });
        await refused(custom.getNamespacedCustomObject({ ...kind, name: 'a' }), 404);
        await objects.delete(definition);
    },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
    const namespace = `${name.toLowerCase()}-${randomBytes(3).toString('hex')}`;
    await core.createNamespace({ body: { metadata: { name: namespace } } });
    try {
        await bounded(name, check(namespace));
    } catch (error) {
        failed += 1;
        console.error(`${name}: ${error.stack}`);
    }
}
if (failed === 0) console.log('done');
process.exit(failed === 0 ? 0 : 1);
