// Package s3 keeps durable folders in S3, or in a store that speaks as S3
// does: it mints credentials that open one folder and nothing else, and opens
// buckets for what the host does itself.
//
//	signer, err := s3.New(s3.Config{
//		Bucket:      "agents",
//		Way:         s3.AssumeRole{Role: "arn:aws:iam::123456789012:role/folders", Keys: keys},
//		RunDeadline: 11 * time.Hour,
//	})
//	if err != nil { … }
//	credentials, err := signer.Sign(ctx, mount.Grant{Prefix: prefix, Run: string(work)})
//
//	bucket, err := s3.OpenBucket(s3.BucketConfig{Bucket: "agents", Keys: keys})
//	if err != nil { … }
//	fs, err := files.New(files.Config{Bucket: bucket, Precondition: s3.Precondition})
//
// # What confines credentials
//
// The keys and roles that credentials come from open the whole bucket. What
// confines them is the session policy that is sent along, and nothing else: see
// [Policy]. A store that mints credentials and ignores that policy is not fit
// for this package, and neither is one that can't mint any: then there are no
// credentials, and never those of the host itself. [Signer.Prove] tells: a host
// calls it when it starts.
//
// The role's trust policy names who may assume it: the host's user, or the
// issuer. Where it names everybody there are stores at which a folder's
// credentials assume the role again, without the policy, and open the whole bucket.
//
// # Ways to mint
//
// [AssumeRole] and [FederationToken] sign with keys of the host, [WebIdentity]
// shows a token in place of keys. What they open is tried out on SeaweedFS, for
// AssumeRole and WebIdentity; its federation tokens may do nothing. At AWS
// FederationToken needs the keys of a user.
//
// Values of this package are safe for concurrent use.
package s3
