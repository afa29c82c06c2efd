package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/internal/version"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// versions is the output of the command version.
type versions struct {
	Client string `json:"client"`
	Commit string `json:"commit,omitempty"`
	Go     string `json:"go"`
	// Server is the version of Kubernetes, or empty with --client.
	Server string `json:"server,omitempty"`
	// Schemas are the versions of the formats that this client writes.
	Schemas map[string]string `json:"schemas"`
}

func (a *app) version() *cobra.Command {
	var clientOnly bool
	var format formatFlag
	command := leaf("version", "Print the versions of the client, its formats and the cluster", "", "", func(context.Context) error {
		v := clientVersions()
		var missing error
		if !clientOnly {
			v.Server, missing = a.serverVersion()
		}
		return errors.Join(versionFormats.Write(a.Out, format.value, v), missing)
	})
	command.Flags().BoolVar(&clientOnly, "client", false, "print only the client's version")
	format.addFlag(command, versionFormats.Names())
	return command
}

// serverVersion returns the version of the cluster.
func (a *app) serverVersion() (string, error) {
	client, err := a.cluster.ToDiscoveryClient()
	if err != nil {
		return "", fmt.Errorf("reading the cluster's version: %w: use --client without a cluster", err)
	}
	server, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("reading the cluster's version (GET /version): %w: use --client without a cluster", err)
	}
	return server.GitVersion, nil
}

// clientVersions returns the versions of this client.
func clientVersions() versions {
	v := versions{Schemas: map[string]string{
		"report": report.APIVersion, "claim": v1alpha1.GroupVersion.String(),
	}}
	info := version.Get()
	v.Client, v.Commit, v.Go = info.Version, info.Commit, info.Go
	return v
}

// versionFormats are the formats of the versions.
var versionFormats = report.NewFormats("the versions", "text", func(w io.Writer, v versions) error {
	server := ""
	if v.Server != "" {
		server = fmt.Sprintf("Server:  %s\n", v.Server)
	}
	_, err := fmt.Fprintf(w, "Client:  %s (%s)\nReport:  %s\nClaims:  %s\n%s", v.Client, v.Go, v.Schemas["report"], v.Schemas["claim"], server)
	return err
})
