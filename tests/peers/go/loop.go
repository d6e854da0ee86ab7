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
	// unmeasuredTicks is how many events come before the measured ones.
	unmeasuredTicks = 20
	// refillEvery is how often the busy one gets all of its keys again: before they have run out.
	refillEvery = 100 * time.Millisecond
	// hogKeys is how many keys the controller has that only computes.
	hogKeys = 1000
	// hogLimit is how long it computes for a key: as long as the limit of a guest is by default.
	hogLimit = time.Second
	// warmUpKeys are run before the measured ones.
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

// start runs a controller, native and with its default queue, and returns that queue.
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

// besideReady watches a controller beside one that has so many ready keys, all of the time.
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

// besideHog watches a controller beside one whose reconciler does nothing but compute, on every worker that it has.
func besideHog(size size) (values, error) {
	if err := startHog("busy", size.workers, hogKeys); err != nil {
		return nil, err
	}
	return watch(size)
}

// startHog runs a controller whose reconciler does nothing but compute.
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

// watch gives a controller a key for each event from outside, and looks how long each waits.
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
