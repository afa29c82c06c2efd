package cniexec

import (
	"bytes"
	"io"
)

// held is work that is done while a plugin's process starts. The plugin does nothing
// before it has read its configuration (CNI specification § "Execution Protocol"), which
// it gets when the work is done, and not at all if the work has failed. Starting a
// process takes longer than syncing a file.
type held struct {
	done chan struct{}
	err  error
}

// hold begins the work in the background. before may be nil.
func hold(before func() error) *held {
	h := &held{done: make(chan struct{})}
	if before == nil {
		close(h.done)
		return h
	}
	go func() {
		defer close(h.done)
		h.err = before()
	}()
	return h
}

// wait returns the work's error when the work is done.
func (h *held) wait() error {
	<-h.done
	return h.err
}

// input returns a reader of a plugin's configuration that waits for the work. If the work
// has failed, it calls refuse before the plugin can read anything, even the end of file.
func (h *held) input(config []byte, refuse func()) io.Reader {
	return &heldInput{h: h, config: bytes.NewReader(config), refuse: refuse}
}

type heldInput struct {
	h      *held
	config *bytes.Reader
	refuse func()
}

// Read implements io.Reader.
func (i *heldInput) Read(p []byte) (int, error) {
	if err := i.h.wait(); err != nil {
		i.refuse()
		return 0, err
	}
	return i.config.Read(p)
}
