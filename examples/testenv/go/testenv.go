// Package testenv starts a Homeostat host for the tests of an operator, as envtest starts an API server and etcd.
//
// Copy this file into your module. It needs the binary `homeostat` on PATH, or at Environment.Binary.
package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Environment is a host for tests. The zero value starts one without manifests.
type Environment struct {
	// CRDDirectoryPaths are folders of manifests that are there from the start. Each has to exist.
	CRDDirectoryPaths []string
	// Binary is the program; empty for `homeostat` on PATH.
	Binary string

	process    *exec.Cmd
	stdin      io.Closer
	kubeconfig []byte
}

// Start starts the host, and returns the settings of a client. The host ends with this process at the latest.
func (e *Environment) Start() (*rest.Config, error) {
	binary := e.Binary
	if binary == "" {
		binary = "homeostat"
	}
	arguments := append([]string{"testenv", "--stdin"}, e.CRDDirectoryPaths...)
	e.process = exec.Command(binary, arguments...)
	e.process.Stderr = os.Stderr
	stdin, err := e.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := e.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := e.process.Start(); err != nil {
		return nil, err
	}
	e.stdin = stdin
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s testenv has ended", binary), e.process.Wait())
	}
	e.kubeconfig = line
	return clientcmd.RESTConfigFromKubeConfig(line)
}

// Kubeconfig returns the kubeconfig of a started host.
func (e *Environment) Kubeconfig() []byte {
	return e.kubeconfig
}

// Stop ends the host. All of its data is gone.
func (e *Environment) Stop() error {
	if e.process == nil {
		return nil
	}
	return errors.Join(e.stdin.Close(), e.process.Wait())
}
