// Command informer watches resources with client-go's shared informer, and prints each event as a JSON object
// in a line.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// outputLine is one line of output.
type outputLine struct {
	Event    string `json:"event"`
	Name     string `json:"name,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Resync is set for events of a resync, which repeat known resources.
	Resync bool `json:"resync,omitempty"`
}

func main() {
	server := flag.String("server", "", "address of the API")
	resource := flag.String("resource", "", "as apps/v1/deployments")
	resync := flag.Duration("resync", 0, "period of the resync")
	token := flag.String("token", "", "token for the API")
	media := flag.String("media", "", "refuses answers whose media type does not begin with this")
	authority := flag.String("certificate-authority", "", "file with the certificate of the API")
	flag.Parse()
	config := &rest.Config{Host: *server, BearerToken: *token, TLSClientConfig: rest.TLSClientConfig{CAFile: *authority}}
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return checked{inner, *media} })
	if err := follow(config, *resource, *resync); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// checked refuses answers of another media type.
type checked struct {
	inner http.RoundTripper
	media string
}

func (c checked) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.inner.RoundTrip(request)
	if err == nil && !strings.HasPrefix(response.Header.Get("Content-Type"), c.media) {
		fmt.Fprintf(os.Stderr, "%s is answered with %s\n", request.URL, response.Header.Get("Content-Type"))
		os.Exit(1)
	}
	return response, err
}

func follow(config *rest.Config, resource string, resync time.Duration) error {
	parts := strings.Split(resource, "/")
	if len(parts) != 3 {
		return fmt.Errorf("--resource: %q is not like apps/v1/deployments", resource)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, resync)
	informer := informers.ForResource(schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}).Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { say("add", object, false) },
		UpdateFunc: func(before, after any) {
			say("update", after, revision(before) == revision(after))
		},
		DeleteFunc: func(object any) { say("delete", object, false) },
	})
	if err != nil {
		return err
	}
	ctx := context.Background()
	informers.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("the informer has not synced")
	}
	write(outputLine{Event: "synced"})
	select {}
}

func say(event string, object any, resync bool) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if resource, ok := object.(*unstructured.Unstructured); ok {
		write(outputLine{Event: event, Name: resource.GetName(), Revision: resource.GetResourceVersion(), Resync: resync})
	}
}

func revision(object any) string {
	if resource, ok := object.(*unstructured.Unstructured); ok {
		return resource.GetResourceVersion()
	}
	return ""
}

func write(line outputLine) {
	text, err := json.Marshal(line)
	if err == nil {
		fmt.Println(string(text))
	}
}
