#compdef vidcap

_vidcap_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _VIDCAP_COMPLETE=complete_zsh vidcap)
}

if [[ $funcstack[1] == _vidcap ]]; then
  _vidcap_completion "$@"
else
  compdef _vidcap_completion vidcap
fi
