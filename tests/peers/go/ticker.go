package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"time"
)

// every is how often something happens.
const every = 5 * time.Millisecond

// printTicks writes the time to standard output, as eight bytes, until nobody reads it.
func printTicks() {
	for {
		time.Sleep(every)
		if binary.Write(os.Stdout, binary.LittleEndian, time.Now().UnixNano()) != nil {
			return
		}
	}
}

// ticks are events from outside, and when they happened: a process of its own writes the time into a pipe. Who reads it late, because
// its threads are busy, has waited too.
type ticks struct{ output io.Reader }

// startTicks starts the process. It ends with this one, when nobody reads its output any more.
func startTicks() (ticks, error) {
	program, err := os.Executable()
	if err != nil {
		return ticks{}, err
	}
	command := exec.Command(program, "ticker")
	output, err := command.StdoutPipe()
	if err != nil {
		return ticks{}, err
	}
	return ticks{bufio.NewReader(output)}, command.Start()
}

// next waits for the next event and returns when it happened.
func (t ticks) next() (int64, error) {
	var at int64
	err := binary.Read(t.output, binary.LittleEndian, &at)
	return at, err
}
