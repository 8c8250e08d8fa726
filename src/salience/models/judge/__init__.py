"""What a new text is to an older one, by a model that reads both: the judges that ship."""
