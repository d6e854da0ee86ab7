package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

const (
	// producers is the number of goroutines that add keys concurrently.
	producers = 50
	// againEvery makes a worker add one of this many held keys again.
	againEvery = 10
	// turn is the number of keys that are added before others may run.
	turn = 100
	// addedKeys is the number of keys that are added repeatedly beside workers.
	addedKeys = 1000
	// rest is the pause before a worker is woken, so that it sleeps.
	rest = time.Millisecond
)

// queue is the common interface of the queues; done is what a controller calls after a successful key.
type queue struct {
	workqueue.TypedInterface[string]
	addAfter func(key string, delay time.Duration)
	done     func(key string)
}

func newQueue(system string) (queue, error) {
	switch system {
	case "client-go":
		plain := workqueue.NewTyped[string]()
		return queue{plain, nil, plain.Done}, nil
	case "client-go-metrics":
		// A named queue reports to controller-runtime's metrics, as in every controller.
		named := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "measured"})
		return queue{named, nil, named.Done}, nil
	case "client-go-limiting":
		limiting := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
		return forgetting(limiting), nil
	case "controller-runtime":
		return forgetting(priorityqueue.New[string]("")), nil
	}
	return queue{}, fmt.Errorf("there is no queue of %s", system)
}

// forgetting returns a queue whose rate limiter forgets a successful key first, as in controllers.
func forgetting(limiting workqueue.TypedRateLimitingInterface[string]) queue {
	done := func(key string) {
		limiting.Forget(key)
		limiting.Done(key)
	}
	return queue{limiting, limiting.AddAfter, done}
}

func runQueue(system, work string, size size) (values, error) {
	queue, err := newQueue(system)
	if err != nil {
		return nil, err
	}
	switch work {
	case "add+get+done":
		return addGetDone(queue, size), nil
	case "add only":
		return addOnly(queue, size), nil
	case "add contended":
		return addContended(queue, size), nil
	case "waiting":
		return waiting(queue, size)
	case "producers":
		return produced(queue, size), nil
	case "wake-up":
		return wakeUp(queue, size), nil
	case "idle":
		return idle(system, size)
	case "depth":
		return depth(queue, size), nil
	}
	return nil, fmt.Errorf("the queues have no work %s", work)
}

func addGetDone(queue queue, size size) values {
	keys := names(size.keys)
	laps := startLaps(size.long)
	for laps.another() {
		for _, key := range keys {
			queue.Add(key)
		}
		for range keys {
			key, _ := queue.Get()
			queue.done(key)
		}
	}
	return values{"ns": laps.nanosEach(len(keys))}
}

func addOnly(queue queue, size size) values {
	keys := names(size.keys)
	laps := startLaps(size.long)
	for laps.another() {
		for _, key := range keys {
			queue.Add(key)
		}
	}
	return values{"ns": laps.nanosEach(len(keys))}
}

// addContended adds a thousand keys repeatedly, while a thousand workers take keys, hold each for a
// millisecond, and finish them.
func addContended(queue queue, size size) values {
	keys := names(size.keys)
	for _, key := range keys {
		queue.Add(key)
	}
	for range size.workers {
		go func() {
			for {
				key, _ := queue.Get()
				time.Sleep(rest)
				queue.done(key)
			}
		}()
	}
	added := keys[:min(addedKeys, len(keys))]
	laps := startLaps(size.long)
	for laps.another() {
		for _, key := range added {
			queue.Add(key)
		}
	}
	return values{"ns": laps.nanosEach(len(added))}
}

// waiting adds keys that are due within a tenth of a second, all at once and in pseudo-random order; then it
// takes them when they are due.
func waiting(queue queue, size size) (values, error) {
	empty, err := residentBytes()
	if err != nil {
		return nil, err
	}
	keys := names(size.keys)
	full, err := residentBytes()
	if err != nil {
		return nil, err
	}
	due := newDue(size.long, len(keys))
	before, err := residentBytes()
	if err != nil {
		return nil, err
	}
	start, now := time.Now(), time.Duration(0)
	for place := range keys {
		number := shuffled(place, len(keys))
		queue.addAfter(keys[number], due.of(number)-now)
		after := time.Since(start)
		due.slack[number], now = after-now, after
	}
	// controller-runtime's queue processes added keys when its length is requested; otherwise it does so later,
	// by itself.
	queue.Len()
	built := time.Since(start)
	after, err := residentBytes()
	if err != nil {
		return nil, err
	}
	if measured := time.Since(start); measured >= size.long {
		return nil, fmt.Errorf("adding took %v: the first keys were due before the last was added", measured)
	}
	time.Sleep(size.long - time.Since(start))
	order := make([]taken, 0, len(keys))
	for range keys {
		key, _ := queue.Get()
		order = append(order, taken{time.Since(start), number(key)})
		queue.done(key)
	}
	fired := time.Since(start) - size.long
	late, err := due.outOfOrder(order)
	return values{
		"bytes":        float64(after-before) / float64(len(keys)),
		"key bytes":    float64(full-empty) / float64(len(keys)),
		"build ns":     nanosEach(built, len(keys)),
		"fire ns":      nanosEach(fired, len(keys)),
		"out of order": float64(late),
	}, err
}

// produced lets producers add their own keys and workers take them; every tenth key is added again while it
// is held.
func produced(queue queue, size size) values {
	keys := names(size.keys)
	left, runs := atomic.Int64{}, atomic.Int64{}
	left.Store(int64(size.keys))
	allDone := make(chan struct{})
	start := time.Now()
	for range size.workers {
		go func() {
			for count := 1; ; count++ {
				key, _ := queue.Get()
				if count%againEvery == 0 {
					left.Add(1)
					queue.Add(key)
				}
				queue.done(key)
				runs.Add(1)
				if left.Add(-1) == 0 {
					close(allDone)
				}
			}
		}()
	}
	each := (size.keys + producers - 1) / producers
	for from := 0; from < len(keys); from += each {
		go func(keys []string) {
			for _, key := range keys {
				queue.Add(key)
			}
		}(keys[from:min(from+each, len(keys))])
	}
	<-allDone
	return values{"keys/s": float64(runs.Load()) / time.Since(start).Seconds()}
}

// wakeUp adds a key to a queue whose worker sleeps, and measures the time until the worker has it.
func wakeUp(queue queue, size size) values {
	took := make(chan time.Time, 1)
	go func() {
		for {
			key, _ := queue.Get()
			now := time.Now()
			queue.done(key)
			took <- now
		}
	}()
	waits := make([]time.Duration, 0, size.keys)
	key := name(127)
	for range size.keys {
		time.Sleep(rest)
		start := time.Now()
		queue.Add(key)
		waits = append(waits, (<-took).Sub(start))
	}
	return values{"p50 us": percentileUs(waits, 50), "p99 us": percentileUs(waits, 99)}
}

// idle measures the CPU time of queues whose workers sleep.
func idle(system string, size size) (values, error) {
	for range size.keys {
		queue, err := newQueue(system)
		if err != nil {
			return nil, err
		}
		go queue.Get()
	}
	time.Sleep(size.long / 3)
	before, err := processorNanos()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	time.Sleep(size.long)
	after, err := processorNanos()
	return values{"us/s": float64(after-before) / 1e3 / time.Since(start).Seconds()}, err
}

// depth takes the first of this many ready keys, finishes it, and adds it at the end.
func depth(queue queue, size size) values {
	for _, key := range names(size.keys) {
		queue.Add(key)
	}
	const batch = 1000
	laps := startLaps(size.long)
	for laps.another() {
		for range batch {
			key, _ := queue.Get()
			queue.done(key)
			queue.Add(key)
		}
	}
	return values{"ns": laps.nanosEach(batch)}
}
