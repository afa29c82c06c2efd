package succession

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// socketFile is the socket's name in the state directory.
	socketFile = "handover.sock"
	// protocolVersion is the version of Request and Answer. Later versions only add fields.
	protocolVersion = 1
)

// ErrNoSocket means that the driver that has the state directory cannot be asked: it is a version
// of nadra before 0.1.0, or it has just died.
var ErrNoSocket = errors.New("no driver answers on the handover socket")

// Manner is how a driver is asked to hand over.
type Manner string

// The manners.
const (
	// Hello only asks whether the driver could hand over.
	Hello Manner = "hello"
	// WhenQuiet asks it to hand over once it runs no operation on a pod, or to refuse.
	WhenQuiet Manner = "when-quiet"
	// Now asks it to end its operations as on SIGTERM.
	Now Manner = "now"
)

// Request asks the driver that has the state directory to hand it over.
type Request struct {
	Version int    `json:"version"`
	By      Driver `json:"by"`
	Manner  Manner `json:"manner"`
	// Within is how long the driver may wait until it is quiet.
	Within time.Duration `json:"within,omitempty"`
}

// Answer is the driver's answer.
type Answer struct {
	Version int    `json:"version"`
	Holder  Driver `json:"holder"`
	// HandsOver is true if the driver releases the directory right after this answer.
	HandsOver bool `json:"handsOver"`
	// Reason is why it does not.
	Reason string `json:"reason,omitempty"`
}

// Ask sends a request to the driver that has a state directory, and returns its answer.
func Ask(ctx context.Context, dir string, r Request) (Answer, error) {
	r.Version = protocolVersion
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, socketFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return Answer{}, fmt.Errorf("%w: %w", ErrNoSocket, err)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("asking the driver that has the state directory: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return Answer{}, fmt.Errorf("asking the driver that has the state directory: %w", err)
	}
	var a Answer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return Answer{}, fmt.Errorf("reading the answer of the driver that has the state directory: %w", err)
	}
	return a, nil
}
