package succession

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// requestTime limits the reading of a request and the writing of its answer.
const requestTime = 5 * time.Second

// Serve answers requests for a state directory, which this process has locked, until ctx ends.
// It then removes the socket, and returns when all answers are sent.
func Serve(ctx context.Context, dir string, holder Driver, answer func(context.Context, Request) Answer) error {
	path := filepath.Join(dir, socketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a driver that has died
		return fmt.Errorf("removing the handover socket of an earlier driver: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listening for the next driver: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var answers sync.WaitGroup
	defer answers.Wait()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listening for the next driver: %w", err)
		}
		answers.Go(func() {
			defer conn.Close()
			var r Request
			_ = conn.SetReadDeadline(time.Now().Add(requestTime))
			if json.NewDecoder(conn).Decode(&r) != nil {
				return // not a driver
			}
			a := answer(ctx, r)
			a.Version, a.Holder = protocolVersion, holder
			_ = conn.SetWriteDeadline(time.Now().Add(requestTime))
			_ = json.NewEncoder(conn).Encode(a) // a driver that is gone takes nothing over
		})
	}
}
