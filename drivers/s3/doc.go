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
// # Taking credentials back
//
// No store takes back credentials that it has minted: they are good until they
// expire, and the least that stores grant is [MinTTL]. What a host can do is to
// mint for as short as that (Config.TTL, for mounts renew theirs), to have mount.KeptSigner in between, which
// mints nothing more for a folder that was put away or deleted, and to look up
// in the store's log what a run has done, whose id is the name of its session. At AWS the role may be given a policy that denies all
// that was issued before a time: that ends every run of all folders at once, and they go on with their next credentials.
//
// # Buckets that keep versions
//
// In such a bucket what folders held can be brought back, also after a purge. [Unversion] is for a purge that is to leave nothing.
//
// Values of this package are safe for concurrent use.
package s3
