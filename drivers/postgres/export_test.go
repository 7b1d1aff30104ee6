package postgres

// What tests look at from outside.
var (
	Dialect       = dialect
	CheckSettings = checkSettings
)
