package testenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// A webhook as kubebuilder generates one: it sets a default, and refuses what is too large.
type sizes struct{}

func (sizes) Default(_ context.Context, object *corev1.ConfigMap) error {
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	if _, is := object.Data["size"]; !is {
		object.Data["size"] = "small"
	}
	return nil
}

func (sizes) ValidateCreate(_ context.Context, object *corev1.ConfigMap) (admission.Warnings, error) {
	if object.Data["size"] == "huge" {
		return nil, errors.New("huge is too large")
	}
	return admission.Warnings{"sizes are experimental"}, nil
}

func (s sizes) ValidateUpdate(ctx context.Context, _, object *corev1.ConfigMap) (admission.Warnings, error) {
	return s.ValidateCreate(ctx, object)
}

func (sizes) ValidateDelete(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}

// webhooks is what controller-gen writes to config/webhook. Each names a service, which envtest replaces by the address of the test.
const webhooks = `---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: mutating-webhook-configuration
webhooks:
- admissionReviewVersions: [v1]
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate--v1-configmap}}
  failurePolicy: Fail
  name: mconfigmap.kb.io
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  sideEffects: None
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: validating-webhook-configuration
webhooks:
- admissionReviewVersions: [v1]
  clientConfig: {service: {name: webhook-service, namespace: system, path: /validate--v1-configmap}}
  failurePolicy: Fail
  name: vconfigmap.kb.io
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  sideEffects: None
`

func TestWebhooksOfKubebuilderAct(t *testing.T) {
	environment := Environment{Binary: os.Getenv("HOMEOSTAT")}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer environment.Stop()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "manifests.yaml"), []byte(webhooks), 0o600); err != nil {
		t.Fatal(err)
	}
	options := envtest.WebhookInstallOptions{Paths: []string{folder}}
	if err := options.Install(config); err != nil {
		t.Fatal(err)
	}
	defer options.Cleanup()
	ctrl.SetLogger(zap.New())
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	builder := ctrl.NewWebhookManagedBy(manager, &corev1.ConfigMap{})
	if err := builder.WithDefaulter(sizes{}).WithValidator(sizes{}).Complete(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	create := func(name string, data map[string]string) (*corev1.ConfigMap, error) {
		made := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
		return maps.Create(ctx, &made, metav1.CreateOptions{})
	}
	// Until the server of the webhooks listens, writes fail.
	var made *corev1.ConfigMap
	for deadline := time.Now().Add(time.Minute); ; {
		if made, err = create("a", nil); err == nil || time.Now().After(deadline) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil || made.Data["size"] != "small" {
		t.Fatal(made, err)
	}
	_, err = create("b", map[string]string{"size": "huge"})
	denied := `admission webhook "vconfigmap.kb.io" denied the request: huge is too large`
	if err == nil || !strings.Contains(err.Error(), denied) {
		t.Fatal(err)
	}
	made.Data["size"] = "huge"
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), denied) {
		t.Fatal(err)
	}
}
