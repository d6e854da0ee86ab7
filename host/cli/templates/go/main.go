// A controller that greets the name in each Greeting.
package main

import (
	"errors"
	"fmt"

	"example.com/{{name}}/homeostat"
)

// GreetingSpec is the spec of a Greeting.
type GreetingSpec struct {
	Name string `json:"name"`
}

// GreetingStatus is the status of a Greeting.
type GreetingStatus struct {
	Message string `json:"message"`
}

// Greeting is the kind that this controller manages.
type Greeting = homeostat.Resource[GreetingSpec, GreetingStatus]

func init() {
	homeostat.Register(homeostat.Controller{
		Manages:   homeostat.Declaration{APIVersion: "{{name}}.example.dev/v1", Kind: "Greeting", Plural: "greetings"},
		Reconcile: reconcile,
	})
}

func reconcile(key homeostat.Key) (homeostat.Outcome, error) {
	// The key is all there is: the greeting may be gone by now.
	greeting, err := homeostat.Get[Greeting](key)
	if errors.Is(err, homeostat.ErrNotFound) {
		return homeostat.Settled, nil
	}
	if err != nil {
		return homeostat.Settled, err
	}
	if greeting.Spec.Name == "" {
		// Trying again cannot help: the key waits until its resource changes.
		return homeostat.Settled, homeostat.Never(errors.New("spec.name is empty"))
	}
	status := GreetingStatus{Message: fmt.Sprintf("Hello, %s!", greeting.Spec.Name)}
	return homeostat.Settled, homeostat.UpdateStatus(key, status)
}

// The host calls the exports of the package homeostat instead.
func main() {}
