// Command crio-images changes the store that CRI-O reads, as `ctr images` does for
// containerd. It is built with CRI-O's own versions of the store.
//
//	crio-images DRIVER ROOT RUNROOT import ARCHIVE
//	crio-images DRIVER ROOT RUNROOT tag IMAGE NAME
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.podman.io/image/v5/copy"
	"go.podman.io/image/v5/docker/archive"
	"go.podman.io/image/v5/signature"
	imagestore "go.podman.io/image/v5/storage"
	"go.podman.io/storage"
	"go.podman.io/storage/pkg/reexec"
)

func main() {
	if reexec.Init() { // the store unpacks layers in a process of its own
		return
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crio-images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 4 {
		return errors.New("usage: crio-images DRIVER ROOT RUNROOT (import ARCHIVE | tag IMAGE NAME)")
	}
	store, err := storage.GetStore(storage.StoreOptions{GraphDriverName: args[0], GraphRoot: args[1], RunRoot: args[2]})
	if err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	switch args = args[3:]; {
	case args[0] == "import" && len(args) == 2:
		return importArchive(ctx, store, args[1])
	case args[0] == "tag" && len(args) == 3:
		return tag(store, args[1], args[2])
	}
	return fmt.Errorf("%q is neither import ARCHIVE nor tag IMAGE NAME", args)
}

// importArchive copies all images of a docker archive into the store, under their names.
func importArchive(ctx context.Context, store storage.Store, file string) error {
	reader, err := archive.NewReader(nil, file)
	if err != nil {
		return err
	}
	defer reader.Close()
	images, err := reader.List()
	if err != nil {
		return err
	}
	policy, err := signature.NewPolicyContext(&signature.Policy{Default: signature.PolicyRequirements{signature.NewPRInsecureAcceptAnything()}})
	if err != nil {
		return err
	}
	for _, names := range images {
		for _, source := range names {
			name := source.DockerReference().String()
			target, err := imagestore.Transport.ParseStoreReference(store, name)
			if err != nil {
				return err
			}
			if _, err := copy.Image(ctx, policy, target, source, nil); err != nil {
				return fmt.Errorf("copying %s: %w", name, err)
			}
		}
	}
	return nil
}

// tag gives an image another name.
func tag(store storage.Store, image, name string) error {
	source, err := imagestore.Transport.ParseStoreReference(store, image)
	if err != nil {
		return err
	}
	found, err := imagestore.Transport.GetStoreImage(store, source)
	if err != nil {
		return fmt.Errorf("finding %s: %w", image, err)
	}
	target, err := imagestore.Transport.ParseStoreReference(store, name)
	if err != nil {
		return err
	}
	return store.AddNames(found.ID, []string{target.DockerReference().String()})
}
