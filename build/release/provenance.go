package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// statementFile has the provenance of all files but itself and the sums.
	statementFile = "nadra.provenance.json"
	// predicateType is SLSA's.
	predicateType = "https://slsa.dev/provenance/v1"
	// releasing is the page that describes the build and the machine that it ran on.
	releasing = home + "/blob/main/docs/develop/releasing.md"
)

// provenance writes an in-toto statement with SLSA's provenance: which files were made of which
// commit by which command. It has no time, builder's name or path, so it is reproducible.
func (r *release) provenance() error {
	info, err := buildinfo.ReadFile(filepath.Join(r.work, "linux_"+r.nodes[0], images[0].programs[0]))
	if err != nil {
		return fmt.Errorf("writing the provenance: %w", err)
	}
	files, err := r.digests()
	if err != nil {
		return err
	}
	predicate, err := object(r.predicate(info.GoVersion))
	if err != nil {
		return fmt.Errorf("writing the provenance: %w", err)
	}
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: predicateType, Predicate: predicate}
	for _, f := range files {
		statement.Subject = append(statement.Subject, &intoto.ResourceDescriptor{Name: f.name, Digest: map[string]string{"sha256": f.sha256}})
	}
	text, err := stable(statement)
	if err != nil {
		return fmt.Errorf("writing the provenance: %w", err)
	}
	return r.write(statementFile, text)
}

// predicate describes the build.
func (r *release) predicate(goVersion string) *slsa.Provenance {
	fields := func(of map[string]string) *structpb.Struct {
		out := &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for k, v := range of {
			out.Fields[k] = structpb.NewStringValue(v)
		}
		return out
	}
	source := "git+" + home + "@refs/tags/" + r.version
	return &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{
			BuildType: releasing + "#provenance",
			ExternalParameters: fields(map[string]string{
				"source": source, "command": r.command(), "version": r.version, "registry": r.registry, "fips140": r.fips140(),
			}),
			ResolvedDependencies: []*intoto.ResourceDescriptor{
				{Uri: source, Digest: map[string]string{"gitCommit": r.commit}},
				{Name: "go", Uri: "pkg:golang/std@" + strings.TrimPrefix(goVersion, "go")},
			},
		},
		RunDetails: &slsa.RunDetails{Builder: &slsa.Builder{Id: releasing + "#builder", Version: map[string]string{"go": goVersion}}},
	}
}

// command returns the command that makes the same files.
func (r *release) command() string {
	out := "make release VERSION=" + r.version + " COMMIT=" + r.commit + " REGISTRY=" + r.registry
	if r.fips != "" {
		out += " FIPS140=" + r.fips
	}
	return out
}

// object returns a message as a field of another one.
func object(m proto.Message) (*structpb.Struct, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	out := &structpb.Struct{}
	return out, protojson.Unmarshal(text, out)
}

// stable returns a message as JSON. protojson varies its spaces from build to build on purpose,
// so they are set here.
func stable(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	return append(out.Bytes(), '\n'), nil
}
