package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// good is the number of well-behaved controllers.
	good = 50
	// atOnce is the number of them that each event is for, in turn.
	atOnce = 5
	// unmeasuredEvents precede the measured ones.
	unmeasuredEvents = 100
	// settle is the pause in which short-lived goroutines end.
	settle = 500 * time.Millisecond
)

func runDensity(work string, size size) (values, error) {
	switch work {
	case "idle one":
		return idleControllers(size)
	case "alone":
		return neighbours(size, 0)
	case "beside loop each":
		return neighbours(size, runtime.NumCPU())
	case "beside loop ten":
		return neighbours(size, 10*runtime.NumCPU())
	}
	return nil, fmt.Errorf("density has no work %s", work)
}

// idleControllers starts controllers in one process, lets each reconcile once, and measures before the second
// and after the last of them.
func idleControllers(size size) (values, error) {
	var all sync.WaitGroup
	var ofOne memory
	for number := range size.keys {
		queue, err := start(fmt.Sprintf("idle-%d", number), 1, func(context.Context, reconcile.Request) (reconcile.Result, error) {
			all.Done()
			return reconcile.Result{}, nil
		})
		if err != nil {
			return nil, err
		}
		all.Add(1)
		queue.Add(request(0))
		if number == 0 {
			all.Wait()
			time.Sleep(settle)
			if ofOne, err = memoryInUse(); err != nil {
				return nil, err
			}
		}
	}
	all.Wait()
	time.Sleep(settle)
	ofAll, err := memoryInUse()
	if err != nil {
		return nil, err
	}
	each := func(one, all int) float64 { return mib(all-one) / float64(max(size.keys-1, 1)) }
	return values{
		"each mib": each(ofOne.resident, ofAll.resident), "each pss mib": each(ofOne.proportional, ofAll.proportional),
		"all mib": mib(ofAll.resident), "all pss mib": mib(ofAll.proportional),
	}, nil
}

func mib(bytes int) float64 {
	return float64(bytes) / (1 << 20)
}

// neighbours measures well-behaved controllers beside this many that only compute.
func neighbours(size size, hogs int) (values, error) {
	for number := range hogs {
		if err := startHog(fmt.Sprintf("bad-%d", number), size.workers, size.keys); err != nil {
			return nil, err
		}
	}
	var times times
	queues := make([]requests, good)
	for at := range queues {
		var err error
		queues[at], err = start(fmt.Sprintf("good-%d", at), size.workers, func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
			times.note(number(request.Name))
			return reconcile.Result{}, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if err := times.follow(atOnce, func(number int) { queues[number%good].Add(request(number)) }); err != nil {
		return nil, err
	}
	return times.waits(unmeasuredEvents, size.long)
}
