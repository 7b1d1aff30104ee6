package s3

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"
)

// hidden is what no error tells: a store may repeat what it was sent.
type hidden []string

func (h *hidden) add(secrets ...string) {
	for _, s := range secrets {
		if s != "" {
			*h = append(*h, s, url.QueryEscape(s), url.PathEscape(s))
		}
	}
}

// clean returns err, or where its text tells something hidden, another in its place.
func (h hidden) clean(err error) error {
	if !h.in(err.Error()) {
		return err
	}
	var refused smithy.APIError
	if errors.As(err, &refused) && !h.in(refused.ErrorCode()) {
		return fmt.Errorf("the store answered %s, in words that hold a secret", refused.ErrorCode())
	}
	return errors.New("the store answered in words that hold a secret")
}

func (h hidden) in(text string) bool {
	for _, s := range h {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}
