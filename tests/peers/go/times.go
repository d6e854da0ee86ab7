package main

import (
	"fmt"
	"sync"
	"time"
)

// times records, for each event's key, when the event happened and when the key reached the measured point.
// Keys are numbered in order.
type times struct {
	lock               sync.Mutex
	happened, measured []int64
}

// follow adds this many keys for each event from outside.
func (t *times) follow(keys int, add func(number int)) error {
	ticks, err := startTicks()
	if err != nil {
		return err
	}
	go func() {
		for {
			at, err := ticks.next()
			if err != nil {
				panic(err)
			}
			for range keys {
				t.lock.Lock()
				next := len(t.happened)
				t.happened, t.measured = append(t.happened, at), append(t.measured, 0)
				t.lock.Unlock()
				add(next)
			}
		}
	}()
	return nil
}

// note records that a key has arrived.
func (t *times) note(number int) {
	now := time.Now().UnixNano()
	t.lock.Lock()
	defer t.lock.Unlock()
	t.measured[number] = now
}

// waits lets the unmeasured keys happen, and then others for this long. It returns the percentiles of their
// times.
func (t *times) waits(unmeasured int, long time.Duration) (values, error) {
	for t.count() < unmeasured {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(long)
	t.lock.Lock()
	defer t.lock.Unlock()
	now := time.Now().UnixNano()
	var took []time.Duration
	for number := unmeasured; number < len(t.happened); number++ {
		at := t.measured[number]
		if at == 0 {
			// A key that has not arrived yet counts until now.
			at = now
		}
		took = append(took, time.Duration(at-t.happened[number]))
	}
	if len(took) == 0 {
		return nil, fmt.Errorf("nothing has happened")
	}
	return values{"p50 us": percentileUs(took, 50), "p99 us": percentileUs(took, 99)}, nil
}

func (t *times) count() int {
	t.lock.Lock()
	defer t.lock.Unlock()
	return len(t.happened)
}
