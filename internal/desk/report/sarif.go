package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// writeSARIF writes SARIF 2.1.0, from which code hosts show findings.
func writeSARIF(w io.Writer, r *Report) error {
	run := sarifRun{
		Tool:    sarifTool{Driver: sarifDriver{Name: "nadra", InformationURI: "https://github.com/nadra-dev/nadra", Rules: []sarifRule{}}},
		Results: []sarifResult{}, ColumnKind: "unicodeCodePoints",
		Properties: map[string]any{"source": r.Source, "summary": r.Summary},
	}
	rules := map[translate.Code]int{}
	for i, g := range groups(r.Findings) {
		rules[g.Code] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRuleOf(g))
	}
	prints := fingerprints{}
	for _, f := range r.Findings {
		run.Results = append(run.Results, sarifResult{
			RuleID: string(f.Code), RuleIndex: rules[f.Code], Level: sarifLevel(f.Severity),
			Message: sarifText{Text: f.Statement()}, Locations: []sarifLocation{sarifLocationOf(f)},
			PartialFingerprints: map[string]string{"nadraFinding/v1": prints.of(f)},
		})
	}
	return writeJSON(w, sarifLog{Schema: sarifSchema, Version: "2.1.0", Runs: []sarifRun{run}})
}

// sarifRuleOf returns the rule of a code.
func sarifRuleOf(g group) sarifRule {
	title := g.Title
	if title == "" {
		title = string(g.Code)
	}
	help := strings.TrimSpace(g.Why + "\n\nWhat to do: " + g.Fix)
	return sarifRule{
		ID: string(g.Code), ShortDescription: sarifText{Text: title}, FullDescription: sarifText{Text: strings.TrimSpace(title + ". " + g.What)},
		Help: sarifText{Text: help}, HelpURI: Docs + address(g.Anchor), DefaultConfiguration: sarifConfiguration{Level: sarifLevel(g.Severity)},
	}
}

// sarifLevel returns the level of a severity.
func sarifLevel(s translate.Severity) string {
	switch s {
	case translate.Blocker:
		return "error"
	case translate.Warning:
		return "warning"
	}
	return "note"
}

// sarifLocationOf returns the location of a finding. Objects of a cluster have no place in a
// file.
func sarifLocationOf(f translate.Finding) sarifLocation {
	name := strings.TrimPrefix(f.Object.Namespace+"/"+f.Object.Kind+"/"+f.Object.Name, "/")
	out := sarifLocation{LogicalLocations: []sarifLogical{{Name: f.Object.String(), FullyQualifiedName: name, Kind: "object"}}}
	if f.Field != "" {
		out.LogicalLocations = append(out.LogicalLocations, sarifLogical{Name: f.Field, FullyQualifiedName: name + "#" + f.Field, Kind: "property"})
	}
	if f.Position.File != "" && f.Position.Line > 0 {
		out.PhysicalLocation = &sarifPhysical{
			ArtifactLocation: sarifArtifactOf(f.Position.File),
			Region:           sarifRegion{StartLine: f.Position.Line, StartColumn: max(f.Position.Column, 0)},
		}
	}
	return out
}

// sarifArtifactOf escapes a file's name. A relative name is relative to the sources' folder.
func sarifArtifactOf(file string) sarifArtifact {
	name := filepath.ToSlash(file)
	if filepath.IsAbs(file) {
		return sarifArtifact{URI: (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(name, "/")}).String()} // Windows: C:/…
	}
	return sarifArtifact{URI: (&url.URL{Path: name}).String(), URIBaseID: "%SRCROOT%"}
}

// fingerprints distinguishes findings without lines, which move. It counts equal findings,
// which have different fingerprints.
type fingerprints map[findingKey]int

// of returns the fingerprint of a finding.
func (p fingerprints) of(f translate.Finding) string {
	key := keyOf(f)
	p[key]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %d", key.code, key.object.kind, key.object.namespace, key.object.name, key.field, p[key]))
	return hex.EncodeToString(sum[:16])
}
