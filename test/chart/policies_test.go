package chart

import (
	"testing"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// expression is a named expression of a policy.
type expression struct {
	name, text string
	returns    *celgo.Type
}

func (e expression) GetName() string            { return e.name }
func (e expression) GetExpression() string      { return e.text }
func (e expression) ReturnTypes() []*celgo.Type { return []*celgo.Type{e.returns} }

// refuses reports whether a policy of the manifests refuses a request, or fails.
func refuses(t *testing.T, policy string, request admission.Attributes) bool {
	t.Helper()
	var p admissionv1.ValidatingAdmissionPolicy
	text, err := yaml.Marshal(fromKustomize(t, "node-policies")["ValidatingAdmissionPolicy <nil>/"+policy])
	if err == nil {
		err = yaml.UnmarshalStrict(text, &p)
	}
	if err != nil || len(p.Spec.Validations) == 0 {
		t.Fatalf("policy %s: %v", policy, err)
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	var variables []cel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, expression{v.Name, v.Expression, celgo.AnyType})
	}
	compiler.CompileAndStoreVariables(variables, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	var validations []cel.ExpressionAccessor
	for _, v := range p.Spec.Validations {
		validations = append(validations, expression{text: v.Expression, returns: celgo.BoolType})
	}
	of := &admission.VersionedAttributes{
		Attributes: request, VersionedKind: request.GetKind(), VersionedObject: admission.NewLazyObject(request.GetObject()), VersionedOldObject: admission.NewLazyObject(request.GetOldObject()),
	}
	results, _, err := compiler.CompileCondition(validations, cel.OptionalVariableDeclarations{}, environment.StoredExpressions).ForInput(compiler.CreateContext(t.Context()), of,
		cel.CreateAdmissionRequest(request, metav1.GroupVersionResource(request.GetResource()), metav1.GroupVersionKind(request.GetKind())),
		cel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
	if err != nil {
		t.Fatal(err)
	}
	refused := false
	for i, r := range results {
		if r.Error != nil {
			t.Errorf("%s: %v", p.Spec.Validations[i].Expression, r.Error)
		}
		refused = refused || r.EvalResult == nil || r.EvalResult.Value() != true
	}
	return refused
}

// TestDriverMakesNoSharedSlice checks the policy for slices: the token of one node's driver makes no slice that nodes
// take for one of their profile.
func TestDriverMakesNoSharedSlice(t *testing.T) {
	const profile = "0123456789abcdef0123456789abcdef"
	for name, tt := range map[string]struct {
		change  func(*resourceapi.ResourceSlice)
		delete  bool
		refused bool
	}{
		"its own":           {change: func(*resourceapi.ResourceSlice) {}},
		"of another node":   {change: func(s *resourceapi.ResourceSlice) { s.Spec.NodeName = ptr.To("node-2") }, refused: true},
		"with other labels": {change: func(s *resourceapi.ResourceSlice) { s.Labels = map[string]string{"example.com/x": profile} }},
		"with the label":    {change: func(s *resourceapi.ResourceSlice) { s.Labels = map[string]string{"nadra.dev/profile": profile} }, refused: true},
		"with an empty label": {
			change:  func(s *resourceapi.ResourceSlice) { s.Labels = map[string]string{"nadra.dev/profile": ""} },
			refused: true,
		},
		"with a shared slice's name": {change: func(s *resourceapi.ResourceSlice) { s.Name = "nadra-" + profile + "-3" }, refused: true},
		"of a node with a like name": {change: func(s *resourceapi.ResourceSlice) { s.Name = "nadra-" + profile + "-net.nadra.dev-x2x4x" }},
		"an earlier one": {change: func(s *resourceapi.ResourceSlice) {
			s.Name, s.Labels = "nadra-"+profile+"-3", map[string]string{"nadra.dev/profile": profile}
		}, delete: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1-net.nadra.dev-x2x4x"}, Spec: resourceapi.ResourceSliceSpec{
				Driver: "net.nadra.dev", NodeName: ptr.To("node-1"), Pool: resourceapi.ResourcePool{Name: "node-1/networks", ResourceSliceCount: 1},
			}}
			tt.change(s)
			driver := &user.DefaultInfo{
				Name: "system:serviceaccount:nadra:nadra-node", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"node-1"}},
			}
			kind, resource := resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), resourceapi.SchemeGroupVersion.WithResource("resourceslices")
			request := admission.NewAttributesRecord(s, nil, kind, "", s.Name, resource, "", admission.Create, nil, false, driver)
			if tt.delete {
				request = admission.NewAttributesRecord(nil, s, kind, "", s.Name, resource, "", admission.Delete, nil, false, driver)
			}
			if got := refuses(t, "nadra-slices", request); got != tt.refused {
				t.Errorf("refused: %v", got)
			}
		})
	}
}
