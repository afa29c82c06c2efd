package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

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
		return errors.Join(a.printVersions(v, format.value), missing)
	})
	command.Flags().BoolVar(&clientOnly, "client", false, "print only the client's version")
	format.addFlag(command, []string{"text", "json", "yaml"})
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

// printVersions prints versions in a format.
func (a *app) printVersions(v versions, format string) error {
	var text []byte
	var err error
	switch format {
	case "json":
		text, err = json.MarshalIndent(v, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(v)
	default:
		text = fmt.Appendf(nil, "Client:  %s (%s)\nReport:  %s\nClaims:  %s\n", v.Client, v.Go, v.Schemas["report"], v.Schemas["claim"])
		if v.Server != "" {
			text = fmt.Appendf(text, "Server:  %s\n", v.Server)
		}
	}
	if err != nil {
		return fmt.Errorf("writing versions: %w", err)
	}
	_, err = a.Out.Write(text)
	return err
}
