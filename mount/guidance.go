package mount

// What agents are told. Neither text names the variable: file tools do not
// expand variables.

func available(path string) string {
	return "You have a durable folder of your own at " + path + ". " +
		"It stays when this session, its working directory and its sandbox are gone, and is there again wherever you work next. " +
		"Keep there what you are asked to remember, your notes and the files that must last; nothing outside it is sure to last. " +
		"Before you answer that something was not saved, look there. " +
		"Other runs of you may use the folder at the same time: of two writes to one file the last one stays."
}

func lasting(path string) string {
	return "Your working directory " + path + " lasts as long as this session: its files are there again in a new sandbox. " +
		"Nothing else of the sandbox is sure to last."
}

func unavailable(path string) string {
	folder := "Your durable folder"
	if path != "" {
		folder += " (" + path + ")"
	}
	return folder + " can't be reached in this run. Nothing in it was deleted or lost. " +
		"Do not search for it, do not make another in its place, and do not report its files as missing or deleted: " +
		"what earlier runs kept there is still kept. " +
		"Where something depends on it, say that the folder can't be reached right now. What you write elsewhere is not sure to last."
}

const readmeName = "README.md"

// readmeText is written once, where there is no README yet. From then on it is the agent's.
const readmeText = `# This folder is yours

It belongs to one agent and lasts: it is there in every session the agent
works in, and stays when a session, its working directory and its sandbox are gone.

The working directory belongs to a session and to everybody who works in it.

Runs of the agent that work at the same time share this folder. Of two
writes to one file the last one stays.

Change this file as you like: it is written only where there is none.
`
