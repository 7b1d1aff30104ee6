// Package s3tables is that of weed, but for the tables of Iceberg, in this file's place.
package s3tables
