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

// laps says how often to run a batch of operations, and how long each operation took. As its namesake in Rust.
type laps struct {
	long  time.Duration
	warm  bool
	start time.Time
	begun int
}

// startLaps starts to warm up for a quarter of long, after which batches are measured for long.
func startLaps(long time.Duration) *laps {
	return &laps{long: long, start: time.Now()}
}

// another says whether to run one more batch: one at least to warm up, and one at least that counts.
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

// nanosEach returns the nanoseconds for each operation, where a batch is so many of them.
func (l *laps) nanosEach(operations int) float64 {
	return nanosEach(time.Since(l.start), l.begun*operations)
}

func nanosEach(took time.Duration, operations int) float64 {
	return float64(took.Nanoseconds()) / float64(operations)
}

// percentileUs sorts, and returns the value that percent of the values do not exceed, in microseconds.
func percentileUs(waits []time.Duration, percent int) float64 {
	if len(waits) == 0 {
		return 0
	}
	slices.Sort(waits)
	rank := max((len(waits)*percent+99)/100, 1)
	return float64(waits[rank-1].Nanoseconds()) / 1e3
}

// memory is what a process has in use, in bytes: all of it, and with what it shares with others divided among them.
type memory struct {
	resident, proportional int
}

// residentBytes returns the memory that this process has in use, garbage not counted.
func residentBytes() (int, error) {
	memory, err := memoryInUse()
	return memory.resident, err
}

// memoryInUse returns the memory that this process has in use, garbage not counted.
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

// processorNanos returns the time that the threads of this process have spent on processors.
func processorNanos() (int, error) {
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		return 0, err
	}
	nanos := 0
	for _, file := range files {
		// A thread may end while we look.
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

// taken is one key that was taken, and when.
type taken struct {
	at     time.Duration
	number int
}

// due says when the keys of a work are due. A delay is counted from somewhere inside the call that adds the key, so it is known up to
// the length of that call.
type due struct {
	first time.Duration
	// slack is how much later than asked for each key may be due.
	slack []time.Duration
}

// newDue says that the first of count keys is due after first, and the others at equal distances in the tenth of a second after that.
func newDue(first time.Duration, count int) due {
	slack := make([]time.Duration, count)
	for number := range slack {
		// So that the memory is really there before anybody measures how much there is.
		slack[number] = 1
	}
	return due{first, slack}
}

// of returns when key number number is due, counted from the start.
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
