package testenv

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
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

// client returns the settings that controller-gen writes: a service, which envtest replaces by the address of the test.
func client(path string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{
		Service: &admissionv1.ServiceReference{Namespace: "system", Name: "webhook-service", Path: &path},
	}
}

func webhooks() envtest.WebhookInstallOptions {
	all := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule: admissionv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
		},
	}}
	none, fail := admissionv1.SideEffectClassNone, admissionv1.Fail
	versions := []string{"v1"}
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "mutating-webhook-configuration"},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name: "mconfigmap.kb.io", ClientConfig: client("/mutate--v1-configmap"), Rules: all,
				FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: versions,
			}},
		}},
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "validating-webhook-configuration"},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "vconfigmap.kb.io", ClientConfig: client("/validate--v1-configmap"), Rules: all,
				FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: versions,
			}},
		}},
	}
}

func TestWebhooksOfKubebuilderAct(t *testing.T) {
	environment := Environment{Binary: os.Getenv("HOMEOSTAT")}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer environment.Stop()
	options := webhooks()
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
