package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// insights are the fields of Security Insights, version 2.2.0, that the file uses. Those without omitempty are required.
type insights struct {
	Header struct {
		SchemaVersion string `json:"schema-version"`
		LastUpdated   string `json:"last-updated"`
		LastReviewed  string `json:"last-reviewed"`
		URL           string `json:"url"`
	} `json:"header"`
	Project struct {
		Name           string            `json:"name"`
		Homepage       string            `json:"homepage,omitempty"`
		Administrators []contact         `json:"administrators"`
		Repositories   []map[string]any  `json:"repositories"`
		Documentation  map[string]string `json:"documentation,omitempty"`
		Reporting      struct {
			Accepted bool   `json:"reports-accepted"`
			Bounty   *bool  `json:"bug-bounty-available"`
			Policy   string `json:"policy,omitempty"`
			Comment  string `json:"comment,omitempty"`
		} `json:"vulnerability-reporting"`
	} `json:"project"`
	Repository struct {
		URL           string            `json:"url"`
		Status        string            `json:"status"`
		Changes       *bool             `json:"accepts-change-request"`
		Automated     *bool             `json:"accepts-automated-change-request"`
		NoThirdParty  *bool             `json:"no-third-party-packages,omitempty"`
		CoreTeam      []contact         `json:"core-team"`
		License       map[string]string `json:"license"`
		Documentation map[string]string `json:"documentation,omitempty"`
		Release       map[string]any    `json:"release,omitempty"`
		Security      struct {
			Assessments struct {
				Self map[string]string `json:"self"`
			} `json:"assessments"`
			Tools []struct {
				Name        string          `json:"name"`
				Type        string          `json:"type"`
				Version     string          `json:"version,omitempty"`
				Rulesets    []string        `json:"rulesets"`
				Integration map[string]bool `json:"integration"`
				Results     map[string]any  `json:"results"`
			} `json:"tools,omitempty"`
		} `json:"security"`
	} `json:"repository"`
}

// contact is a person or a team.
type contact struct {
	Name    string `json:"name"`
	Primary bool   `json:"primary"`
}

// tools names, for each tool of security-insights.yml, a file that configures or runs it, and a text of that file. VERSION
// stands for the tool's version.
var tools = map[string][2]string{
	"gosec":       {"build/tools/go.mod", "github.com/securego/gosec/v2 VERSION"},
	"CodeQL":      {".github/codeql.yml", "security-extended"},
	"govulncheck": {"build/tools/go.mod", "golang.org/x/vuln VERSION"},
	"dependabot":  {".github/dependabot.yml", "gomod"},
	"scorecard":   {".github/workflows/scorecard.yaml", "ossf/scorecard-action@"},
	"Go fuzzing":  {"Makefile", "-fuzz "},
}

// TestSecurityInsights checks what security-insights.yml says against the repository: the form, links to files, versions of
// tools, the licence, and dates.
func TestSecurityInsights(t *testing.T) {
	text := read(t, "security-insights.yml")
	var s insights
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	const home = "https://github.com/nadra-dev/nadra"
	links := regexp.MustCompile(home+`/blob/main/(\S+)`).FindAllStringSubmatch(text, -1)
	for _, m := range links {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
			t.Errorf("it links to %s, which does not exist", m[1])
		}
	}
	updated, err := time.Parse(time.DateOnly, s.Header.LastUpdated)
	reviewed, reviewedErr := time.Parse(time.DateOnly, s.Header.LastReviewed)
	r := s.Repository
	for what, good := range map[string]bool{
		"it links to files":             len(links) >= 10,
		"the schema's version":          s.Header.SchemaVersion == "2.2.0",
		"its own address":               s.Header.URL == "https://raw.githubusercontent.com/nadra-dev/nadra/main/security-insights.yml",
		"dates, reviewed after updated": err == nil && reviewedErr == nil && !reviewed.Before(updated),
		"the project":                   s.Project.Name == "nadra" && len(s.Project.Repositories) > 0 && s.Project.Repositories[0]["url"] == home && r.URL == home,
		"one first contact each":        primaries(s.Project.Administrators) == 1 && primaries(r.CoreTeam) == 1,
		"contacts are code owners":      strings.Contains(read(t, "CODEOWNERS"), "@nadra-dev/maintainers") && strings.Contains(r.CoreTeam[0].Name, "@nadra-dev/maintainers"),
		"reporting":                     s.Project.Reporting.Accepted && s.Project.Reporting.Bounty != nil && strings.HasSuffix(s.Project.Reporting.Policy, "/SECURITY.md"),
		"required answers":              r.Status == "active" && r.Changes != nil && r.Automated != nil && r.Security.Assessments.Self["comment"] != "",
		"the licence":                   r.License["expression"] == "Apache-2.0" && r.License["url"] != "" && strings.Contains(read(t, "LICENSE"), "Apache License"),
		"all tools":                     len(r.Security.Tools) == len(tools),
	} {
		if !good {
			t.Errorf("not so: %s", what)
		}
	}
	for _, tool := range r.Security.Tools {
		if of, found := tools[tool.Name]; !found || !strings.Contains(read(t, of[0]), strings.Replace(of[1], "VERSION", tool.Version, 1)) {
			t.Errorf("the repository does not have the tool %s %s", tool.Name, tool.Version)
		}
		if len(tool.Rulesets) == 0 || len(tool.Integration) != 3 || tool.Results == nil || tool.Type == "" {
			t.Errorf("the tool %s lacks a required field", tool.Name)
		}
	}
}

// primaries returns how many contacts are the first.
func primaries(of []contact) (n int) {
	for _, c := range of {
		if c.Primary {
			n++
		}
	}
	return n
}
