package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"
)

// Decode reads opaque parameters and fills in the defaults; it does not
// validate. A field that does not exist, in this spelling, or that occurs twice
// is an error: a request that nobody reads must not look granted (design D1).
func Decode(raw []byte) (*AttachmentConfig, error) {
	c := &AttachmentConfig{}
	strict, err := kjson.UnmarshalStrict(raw, c)
	if err != nil {
		return nil, decodeError(err)
	}
	// An unknown version explains unknown fields, so it is reported first.
	if err := checkType(c); err != nil {
		return nil, err
	}
	if len(strict) > 0 {
		return nil, errors.Join(strict...)
	}
	SetDefaults(c)
	return c, nil
}

func decodeError(err error) error {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return fmt.Errorf("%s: must be of type %s, not %s", wrongType.Field, wrongType.Type, wrongType.Value)
	}
	return fmt.Errorf("decoding JSON: %w", err)
}

func checkType(c *AttachmentConfig) error {
	if want := GroupVersion.String(); c.APIVersion != want {
		return fmt.Errorf("apiVersion: %q is not known: use %q", c.APIVersion, want)
	}
	if c.Kind != Kind {
		return fmt.Errorf("kind: %q is not known: use %q", c.Kind, Kind)
	}
	return nil
}
