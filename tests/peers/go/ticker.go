package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"time"
)

// every is the interval between events.
const every = 5 * time.Millisecond

// printTicks writes the time to standard output, eight bytes each, until the reader closes it.
func printTicks() {
	for {
		time.Sleep(every)
		if binary.Write(os.Stdout, binary.LittleEndian, time.Now().UnixNano()) != nil {
			return
		}
	}
}

// ticks are events from outside with their times: another process writes the time into a pipe. A busy reader
// reads it late, and that delay counts.
type ticks struct{ output io.Reader }

// startTicks starts the process. It ends with this one, when its output is closed.
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

// next waits for the next event and returns its time.
func (t ticks) next() (int64, error) {
	var at int64
	err := binary.Read(t.output, binary.LittleEndian, &at)
	return at, err
}
