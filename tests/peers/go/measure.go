package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// laps decides how often to run a batch of operations, and measures the time of each operation. It matches
// its namesake in Rust.
type laps struct {
	long  time.Duration
	warm  bool
	start time.Time
	begun int
}

// startLaps warms up for a quarter of long; then batches are measured for long.
func startLaps(long time.Duration) *laps {
	return &laps{long: long, start: time.Now()}
}

// another returns whether to run one more batch: at least one to warm up, and at least one that counts.
func (l *laps) another() bool {
	long := l.long
	if !l.warm {
		long /= 4
	}
	if l.begun > 0 && time.Since(l.start) >= long {
		if l.warm {
			return false
		}
		*l = laps{long: l.long, warm: true, start: time.Now()}
	}
	l.begun++
	return true
}

// nanosEach returns the nanoseconds of each operation; operations is the number of them in a batch.
func (l *laps) nanosEach(operations int) float64 {
	return nanosEach(time.Since(l.start), l.begun*operations)
}

func nanosEach(took time.Duration, operations int) float64 {
	return float64(took.Nanoseconds()) / float64(operations)
}

// percentileUs sorts the values and returns the percentile in microseconds.
func percentileUs(waits []time.Duration, percent int) float64 {
	if len(waits) == 0 {
		return 0
	}
	slices.Sort(waits)
	rank := max((len(waits)*percent+99)/100, 1)
	return float64(waits[rank-1].Nanoseconds()) / 1e3
}

// memory is the memory of a process in bytes: resident, and proportional, with shared pages divided among
// their processes.
type memory struct {
	resident, proportional int
}

// residentBytes returns the resident memory of this process, after a garbage collection.
func residentBytes() (int, error) {
	memory, err := memoryInUse()
	return memory.resident, err
}

// memoryInUse returns the memory of this process, after a garbage collection.
func memoryInUse() (memory, error) {
	runtime.GC()
	debug.FreeOSMemory()
	file, err := os.Open("/proc/self/smaps_rollup")
	if err != nil {
		return memory{}, err
	}
	defer file.Close()
	bytes := map[string]int{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[2] == "kB" {
			kibibytes, err := strconv.Atoi(fields[1])
			if err != nil {
				return memory{}, err
			}
			bytes[fields[0]] = kibibytes * 1024
		}
	}
	found := memory{bytes["Rss:"], bytes["Pss:"]}
	if found.resident == 0 {
		return memory{}, fmt.Errorf("there is no Rss in smaps_rollup")
	}
	return found, lines.Err()
}

// processorNanos returns the CPU time of this process's threads.
func processorNanos() (int, error) {
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		return 0, err
	}
	nanos := 0
	for _, file := range files {
		// A thread may end during the loop.
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		spent, err := strconv.Atoi(strings.Fields(string(text))[0])
		if err != nil {
			return 0, err
		}
		nanos += spent
	}
	return nanos, nil
}

// taken is a key that was taken from the queue, and when.
type taken struct {
	at     time.Duration
	number int
}

// due holds the times at which the keys of a work are due. A delay starts somewhere within the call that adds
// the key, so the due time is known up to the length of that call.
type due struct {
	first time.Duration
	// slack is how much later than requested each key may be due.
	slack []time.Duration
}

// newDue makes the first of count keys due after first, and spreads the others evenly over the tenth of a
// second after that.
func newDue(first time.Duration, count int) due {
	slack := make([]time.Duration, count)
	for number := range slack {
		// Write to the memory, so that it is resident before it is measured.
		slack[number] = 1
	}
	return due{first, slack}
}

// of returns the due time of key number number, counted from the start.
func (d due) of(number int) time.Duration {
	return d.first + time.Duration(number)*100*time.Millisecond/time.Duration(len(d.slack))
}

// outOfOrder returns how many keys were taken after one that was due more than a millisecond later.
func (d due) outOfOrder(order []taken) (int, error) {
	latest, late := time.Duration(0), 0
	for _, one := range order {
		at := d.of(one.number)
		if one.at < at {
			return 0, fmt.Errorf("key %d was taken %v early", one.number, at-one.at)
		}
		if at+d.slack[one.number]+time.Millisecond < latest {
			late++
		}
		latest = max(latest, at)
	}
	return late, nil
}
