package cniexec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// otherCaches are the caches of other runtimes on this node.
type otherCaches struct {
	hostRoot string
	// foreign are Options.RuntimeCache and Options.MultusCache.
	foreign []string
}

// ofRuntime and ofMultus are the positions of the caches in otherCaches.
const (
	ofRuntime = iota
	ofMultus
)

// noForeign returns ErrForeignAttachments with the name of a file if the cache of another
// runtime has an attachment of the network. A file that cannot be read, or has the form
// before cniCacheV1, counts by its name, which begins with the network's.
func (o otherCaches) noForeign(network string) error {
	named := func(file string) bool { return strings.HasPrefix(file, network+"-") }
	return o.each(named, func(file string, c CacheEntry, err error) error {
		if err != nil || c.Network == network {
			return fmt.Errorf("CNI network %s: %w: %s", network, ErrForeignAttachments, file)
		}
		return nil
	})
}

// Foreign returns what other runtimes have attached in a sandbox, by their caches. It returns an
// error if one of their files cannot be read.
func (o otherCaches) Foreign(sandboxID string) (out []attachment.Attachment, err error) {
	named := func(file string) bool { return strings.Contains(file, "-"+sandboxID+"-") }
	err = o.each(named, func(_ string, c CacheEntry, err error) error {
		if err == nil && c.ContainerID == sandboxID {
			out = append(out, attachment.Attachment{Interface: c.IfName, CNIName: c.Network, Conflist: c.Config})
		}
		return err
	})
	return out, err
}

// each calls do for the files of other runtimes' caches whose names match, with the error if a
// file cannot be read. It stops at the first error of do.
func (o otherCaches) each(match func(name string) bool, do func(file string, c CacheEntry, err error) error) error {
	for _, dir := range o.foreign {
		if dir == "" {
			continue
		}
		inside, err := inHost(o.hostRoot, dir)
		if err != nil {
			return err
		}
		entries, err := os.ReadDir(inside)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading the CNI cache of another runtime: %w", err)
		}
		for _, e := range entries {
			if !match(e.Name()) {
				continue
			}
			c, err := readCacheEntry(filepath.Join(inside, e.Name()))
			if errors.Is(err, fs.ErrNotExist) { // a DEL has removed it just now
				continue
			}
			if err := do(filepath.Join(dir, e.Name()), c, err); err != nil {
				return err
			}
		}
	}
	return nil
}
