// Package homeostat is a thin layer over the host's interfaces in wit: typed resources, and errors as values.
package homeostat

import (
	"errors"
	"strings"
	"time"
)

// Kind is the type of a resource. The core group is empty.
type Kind struct {
	Group, Version, Name string
}

// KindOf returns the kind name of an apiVersion, such as "apps/v1".
func KindOf(apiVersion, name string) Kind {
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		return Kind{Version: apiVersion, Name: name}
	}
	return Kind{Group: group, Version: version, Name: name}
}

// Key is the name of one resource. The namespace is empty for kinds outside of namespaces.
type Key struct {
	Kind            Kind
	Namespace, Name string
}

// Declaration is a kind that the controller works with, and its names.
type Declaration struct {
	APIVersion, Kind string
	// Plural is in lower case, as in "deployments".
	Plural string
	// ClusterScoped is true for kinds outside of namespaces.
	ClusterScoped bool
	// Schema is a structural schema (OpenAPI v3) in JSON. The host enforces it. Empty is none.
	Schema string
}

// Watch is a further kind, whose resources the controller writes and that name their owner.
type Watch struct {
	// Name is unique in the controller.
	Name string
	Of   Declaration
}

// Outcome is the result of a reconcile that did not fail.
type Outcome struct {
	again   bool
	afterMS uint64
}

// Settled means that the world matches the resource.
var Settled = Outcome{}

// Again runs the key again after a delay, at least.
func Again(after time.Duration) Outcome {
	return Outcome{again: true, afterMS: milliseconds(after)}
}

// Controller is what the host needs to know. Its own writes of a status do not run it again.
type Controller struct {
	Manages Declaration
	Watches []Watch
	// ResyncEvery is the period after which every key runs again. Zero is the default of the host.
	ResyncEvery time.Duration
	// Reconcile brings the world one step closer to the spec of the resource. An error is a failure with backoff,
	// unless it is made by [After] or [Never]. A panic ends the call as a trap.
	Reconcile func(Key) (Outcome, error)
}

var registered Controller

// Register sets the controller. Call it once, from an init function.
func Register(controller Controller) {
	registered = controller
}

// failure is an error with its own rule for the retry.
type failure struct {
	error
	never   bool
	afterMS uint64
}

func (f failure) Unwrap() error { return f.error }

// After is the failure err, retried after a delay. The backoff still holds when it is longer.
func After(delay time.Duration, err error) error {
	return failure{error: err, afterMS: milliseconds(delay)}
}

// Never is the failure err, not retried: the key waits until its resource changes.
func Never(err error) error {
	return failure{error: err, never: true}
}

// The cases of a retry, in the order of the contract.
const (
	retryBackoff = iota
	retryAfter
	retryNever
)

// retryOf returns the case of the retry of an error, and its delay.
func retryOf(err error) (which uint32, afterMS uint64) {
	var own failure
	if !errors.As(err, &own) {
		return retryBackoff, 0
	}
	if own.never {
		return retryNever, 0
	}
	return retryAfter, own.afterMS
}

func milliseconds(delay time.Duration) uint64 {
	return uint64(max(delay, 0).Milliseconds())
}
