package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// unmeasuredTicks is the number of events before the measured ones.
	unmeasuredTicks = 20
	// refillEvery is how often the busy controller gets all of its keys again, before they run out.
	refillEvery = 100 * time.Millisecond
	// hogKeys is the number of keys of the controller that only computes.
	hogKeys = 1000
	// hogLimit is how long it computes for a key: the default CPU limit of a guest.
	hogLimit = time.Second
	// warmUpKeys is the number of keys before the measured ones.
	warmUpKeys = 1000
)

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

func runLoop(work string, size size) (values, error) {
	switch work {
	case "no-op":
		return noOp(size)
	case "alone":
		return watch(size)
	case "beside ready":
		return besideReady(size)
	case "beside hog":
		return besideHog(size)
	}
	return nil, fmt.Errorf("the loop has no work %s", work)
}

// start runs a native controller with its default queue, and returns that queue.
func start(name string, workers int, reconciler reconcile.Func) (requests, error) {
	options := controller.Options{MaxConcurrentReconciles: workers, Reconciler: reconciler}
	unmanaged, err := controller.NewUnmanaged(name, options)
	if err != nil {
		return nil, err
	}
	started := make(chan requests, 1)
	err = unmanaged.Watch(source.Func(func(_ context.Context, queue requests) error {
		started <- queue
		return nil
	}))
	if err != nil {
		return nil, err
	}
	go func() {
		if err := unmanaged.Start(context.Background()); err != nil {
			panic(err)
		}
	}()
	return <-started, nil
}

func request(number int) reconcile.Request {
	namespace, name := parts(number)
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func requestsOf(count int) []reconcile.Request {
	all := make([]reconcile.Request, count)
	for number := range all {
		all[number] = request(number)
	}
	return all
}

// noOp runs every key once through a reconciler that does nothing.
func noOp(size size) (values, error) {
	added, waits := make([]time.Time, size.keys), make([]time.Duration, size.keys)
	var all sync.WaitGroup
	queue, err := start("measured", size.workers, func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
		number := number(request.Name)
		waits[number] = time.Since(added[number])
		all.Done()
		return reconcile.Result{}, nil
	})
	if err != nil {
		return nil, err
	}
	keys := requestsOf(size.keys)
	add := func(keys []reconcile.Request) {
		all.Add(len(keys))
		for number, key := range keys {
			added[number] = time.Now()
			queue.Add(key)
		}
		all.Wait()
	}
	add(keys[:min(warmUpKeys, len(keys))])
	begun := time.Now()
	add(keys)
	perSecond := float64(size.keys) / time.Since(begun).Seconds()
	return values{"keys/s": perSecond, "p99 ms": percentileUs(waits, 99) / 1e3}, nil
}

// besideReady measures a controller beside one that always has this many ready keys.
func besideReady(size size) (values, error) {
	queue, err := start("busy", size.workers, func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	})
	if err != nil {
		return nil, err
	}
	keys := requestsOf(size.keys)
	go func() {
		for {
			for _, key := range keys {
				queue.Add(key)
			}
			time.Sleep(refillEvery)
		}
	}()
	return watch(size)
}

// besideHog measures a controller beside one whose reconciler only computes, on all of its workers.
func besideHog(size size) (values, error) {
	if err := startHog("busy", size.workers, hogKeys); err != nil {
		return nil, err
	}
	return watch(size)
}

// startHog runs a controller whose reconciler only computes.
func startHog(name string, workers, keys int) error {
	queue, err := start(name, workers, func(context.Context, reconcile.Request) (reconcile.Result, error) {
		for begun := time.Now(); time.Since(begun) < hogLimit; {
		}
		return reconcile.Result{}, fmt.Errorf("it computes without end")
	})
	if err != nil {
		return err
	}
	for _, key := range requestsOf(keys) {
		queue.Add(key)
	}
	return nil
}

// watch gives a controller a key for each event from outside, and measures how long each key waits.
func watch(size size) (values, error) {
	var times times
	queue, err := start("watched", size.workers, func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
		times.note(number(request.Name))
		return reconcile.Result{}, nil
	})
	if err != nil {
		return nil, err
	}
	if err := times.follow(1, func(number int) { queue.Add(request(number)) }); err != nil {
		return nil, err
	}
	return times.waits(unmeasuredTicks, size.long)
}
