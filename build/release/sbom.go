package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// sbom writes a CycloneDX file with the modules that are linked into programs, which the
// linker has recorded in them. It has no serial number and time, so it is reproducible.
func (r *release) sbom(name string, p platform, programs ...string) error {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		Type: cyclonedx.ComponentTypeApplication, BOMRef: name, Name: name, Version: r.version,
		Properties: &[]cyclonedx.Property{{Name: "nadra:platform", Value: p.os + "/" + p.arch}, {Name: "nadra:commit", Value: r.commit}},
		Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
	}}
	parts := map[string]cyclonedx.Component{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(r.work, p.String(), p.exe(program)))
		if err != nil {
			return fmt.Errorf("reading the modules of %s: %w", program, err)
		}
		std := part("std", strings.TrimPrefix(info.GoVersion, "go"), "")
		parts[std.BOMRef] = std
		modules := info.Deps
		if info.Main.Sum != "" { // a tool of another module than nadra's
			modules = append(modules, &info.Main)
		}
		for _, m := range modules {
			one := module(m)
			parts[one.BOMRef] = one
		}
	}
	var components []cyclonedx.Component
	for _, one := range parts {
		components = append(components, one)
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	bom.Components = &components
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("writing the SBOM of %s: %w", name, err)
	}
	return r.write(name+"_"+p.String()+".cdx.json", out.Bytes())
}

func module(m *debug.Module) cyclonedx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	return part(m.Path, m.Version, m.Sum)
}

func part(path, version, sum string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	out := cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url}
	if sum != "" { // go.sum's, which is no sum of a file
		out.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: sum}}
	}
	return out
}
