package attachment_test

import (
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

func TestIsolation(t *testing.T) {
	blue := attachment.NetworkRef{Namespace: "prod", Name: "blue"}
	tests := []struct {
		name      string
		isolation attachment.Isolation
		pod       string
		allowed   bool
	}{
		{"off by default", attachment.Isolation{}, "dev", true},
		{"off, whatever is global", attachment.Isolation{Global: []string{"default"}}, "dev", true},
		{"its own namespace", attachment.Isolation{On: true}, "prod", true},
		{"a global namespace", attachment.Isolation{On: true, Global: []string{"default", "prod"}}, "dev", true},
		{"another namespace", attachment.Isolation{On: true, Global: []string{"default"}}, "dev", false},
		{"nothing is global", attachment.Isolation{On: true}, "dev", false},
	}
	for _, tt := range tests {
		err := tt.isolation.Allow(tt.pod, blue)
		if (err == nil) != tt.allowed {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil && (reason.Of(err) != reason.NamespaceIsolation || !strings.Contains(err.Error(), "prod/blue") || !strings.Contains(err.Error(), " dev")) {
			t.Errorf("%s: the error lacks code, network or remedy: %v", tt.name, err)
		}
		if err != nil && !strings.Contains(err.Error(), strings.Join(tt.isolation.Global, ", ")) {
			t.Errorf("%s: the error does not name the shared namespaces: %v", tt.name, err)
		}
	}
}
