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
	// good is how many well-behaved controllers there are.
	good = 50
	// atOnce is how many of them each event is for, in turn.
	atOnce = 5
	// unmeasuredEvents come before the measured ones.
	unmeasuredEvents = 100
	// settle is how long what else ends may take.
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

// idle starts controllers in one process, lets each reconcile once, and measures before the second and after the last of them.
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

// neighbours watches well-behaved controllers beside so many that do nothing but compute.
func neighbours(size size, hogs int) (values, error) {
	for number := range hogs {
		queue, err := start(fmt.Sprintf("bad-%d", number), size.workers, func(context.Context, reconcile.Request) (reconcile.Result, error) {
			for begun := time.Now(); time.Since(begun) < hogLimit; {
			}
			return reconcile.Result{}, fmt.Errorf("it computes without end")
		})
		if err != nil {
			return nil, err
		}
		for _, key := range requestsOf(size.keys) {
			queue.Add(key)
		}
	}
	var lock sync.Mutex
	var happened, ended []int64
	queues := make([]requests, good)
	for number := range queues {
		var err error
		queues[number], err = start(fmt.Sprintf("good-%d", number), size.workers, func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
			lock.Lock()
			defer lock.Unlock()
			ended[numberOf(request)] = time.Now().UnixNano()
			return reconcile.Result{}, nil
		})
		if err != nil {
			return nil, err
		}
	}
	ticks, err := startTicks()
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			at, err := ticks.next()
			if err != nil {
				panic(err)
			}
			for range atOnce {
				lock.Lock()
				next := len(happened)
				happened, ended = append(happened, at), append(ended, 0)
				lock.Unlock()
				queues[next%good].Add(request(next))
			}
		}
	}()
	for count := 0; count < unmeasuredEvents; {
		time.Sleep(time.Millisecond)
		lock.Lock()
		count = len(happened)
		lock.Unlock()
	}
	time.Sleep(size.long)
	lock.Lock()
	defer lock.Unlock()
	now := time.Now().UnixNano()
	var took []time.Duration
	for number := unmeasuredEvents; number < len(happened); number++ {
		at := ended[number]
		if at == 0 {
			// What has not ended yet has taken until now.
			at = now
		}
		took = append(took, time.Duration(at-happened[number]))
	}
	return values{"p50 us": percentileUs(took, 50), "p99 us": percentileUs(took, 99)}, nil
}

func numberOf(request reconcile.Request) int {
	return number(request.Name)
}
