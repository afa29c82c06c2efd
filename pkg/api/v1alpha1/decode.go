package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"

	"github.com/nadra-dev/nadra/internal/words"
)

// Decode decodes opaque parameters and sets the defaults. It does not validate. It rejects
// unknown fields, also those that differ from a known field in case only, and fields that
// occur twice: a request that is ignored must not look granted.
//
// Its errors, and those of Validate, have no code, because the same mistake is ClaimInvalid
// in a claim and something else in a pod's annotation: the caller knows. Only those about a limit
// have LimitExceeded everywhere.
func Decode(raw []byte) (*AttachmentConfig, error) {
	if err := CheckText("the config", raw, MaxRequest, "shorten it"); err != nil {
		return nil, err
	}
	c := &AttachmentConfig{}
	strict, err := kjson.UnmarshalStrict(raw, c)
	if err != nil {
		return nil, words.ShortError(decodeError(err), maxMessage)
	}
	// An unknown version explains unknown fields, so it is reported first.
	if err := checkType(c); err != nil {
		return nil, err
	}
	if len(strict) > 0 {
		return nil, words.ShortError(errors.Join(strict...), maxMessage)
	}
	SetDefaults(c)
	return c, nil
}

// decodeError returns an error that names the field of a value with the wrong type.
func decodeError(err error) error {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return fmt.Errorf("%s: must be of type %s, not %s", wrongType.Field, wrongType.Type, wrongType.Value)
	}
	return fmt.Errorf("decoding JSON: %w", err)
}

// checkType rejects an unknown apiVersion or kind.
func checkType(c *AttachmentConfig) error {
	if want := GroupVersion.String(); c.APIVersion != want {
		return fmt.Errorf("apiVersion: %q is not known: use %q", words.Short(c.APIVersion, maxValue), want)
	}
	if c.Kind != Kind {
		return fmt.Errorf("kind: %q is not known: use %q", words.Short(c.Kind, maxValue), Kind)
	}
	return nil
}
