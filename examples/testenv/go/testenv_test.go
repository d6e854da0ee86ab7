package testenv

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestAHostStartsAndForgetsEverything(t *testing.T) {
	for range 2 {
		environment := Environment{Binary: os.Getenv("HOMEOSTAT")}
		config, err := environment.Start()
		if err != nil {
			t.Fatal(err)
		}
		// The encoding of most operators.
		config.ContentType = "application/vnd.kubernetes.protobuf"
		clients := kubernetes.NewForConfigOrDie(config)
		made := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"b": "c"}}
		if _, err := clients.CoreV1().ConfigMaps("default").Create(context.Background(), &made, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := environment.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}
