"""The entry for those who clone; workflow/Snakefile is what others import."""


include: "workflow/Snakefile"


# An included file cannot name the default target.
rule default:
    default_target: True
    input:
        rules.all.input,
