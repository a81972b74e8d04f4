"""What the manual says that the options themselves do not."""

from __future__ import annotations

#: What a run can end with.
EXIT_CODES = (
    ("0", "All done; inputs that were skipped because they are done already count as done."),
    ("1", "At least one input failed, or a folder holds no video; the others are done."),
    ("2", "Wrong usage."),
    (
        "3",
        "Nothing can run: a model is missing, a pair does not match, a package is broken, memory "
        "does not hold a single frame.",
    ),
    ("130", "Interrupted by Ctrl-C; what is done is kept."),
    ("141", "The reader of a pipe left."),
)

#: Command lines that show what a command is for, each with the words before it.
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "vidcap": (
        ("Try it without a model of your own:", "vidcap demo"),
        ("Describe a video:", "vidcap describe clip.mp4"),
        ("Ask about it:", 'vidcap ask clip.mp4 "What moves to the left?"'),
    ),
    "describe": (
        (
            "Half a minute of a film, one frame a second:",
            "vidcap describe --fps 1 --start 1:30 --end 2:00 film.mkv",
        ),
        ("Records for other programs:", "vidcap describe --format jsonl *.mp4 | jq -r .text"),
        (
            "Subtitles, a caption for each half minute, one file per video of a folder:",
            "vidcap describe --every 30s --format srt --out-dir subtitles talks/",
        ),
        (
            "As many videos as come, kept so that a second run goes on where this one ended:",
            "ls *.mp4 | vidcap describe --files-from - --out-file all.jsonl",
        ),
        ("A video from elsewhere:", "yt-dlp -o - URL | vidcap describe -"),
    ),
    "ask": (
        (
            "Two questions, the video read once:",
            'vidcap ask clip.mp4 "How many objects are there?" "What moves?"',
        ),
    ),
    "bench": (
        (
            "Two lengths of drafted chain:",
            "vidcap bench --pair demo --arm plain --arm sd --grid draft-tokens=3,5",
        ),
    ),
    "demo": (("Ten sample clips with true captions:", "vidcap demo --clips clips --count 10"),),
    "models": (
        ("What is there, and what is here:", "vidcap models list"),
        ("Fetch a pair:", "vidcap models pull qwen2.5-vl-7b"),
        ("What --set can change in a method:", "vidcap models show specvlm"),
    ),
    "plan": (
        ("Whether a pair has room for a video:", "vidcap plan --pair qwen2.5-vl-32b film.mkv"),
    ),
    "doctor": (("A report for a bug report:", "vidcap doctor --format json"),),
}

#: How settings are made, in paragraphs.
SETTINGS = (
    "Every option can be set by the variable that stands beside it, or in a "
    "configuration file in TOML, whose keys are the long names of options: "
    "max-frames = 32. A key at the top counts for every command that has the option, one "
    "in a table such as [describe] for that command only. Flags win over variables, "
    "variables over the file, and the file over the defaults.",
    "The file is config.toml in the folder vidcap of the platform's place for "
    "configuration, which is $XDG_CONFIG_HOME or ~/.config on Linux, ~/Library/Application "
    "Support on macOS and %APPDATA% on Windows. vidcap doctor says which one is used; "
    "--config and VIDCAP_CONFIG name another.",
    "HF_HUB_OFFLINE=1 keeps vidcap from asking the hub, as --offline does. HF_HOME says "
    "where models are cached.",
)
