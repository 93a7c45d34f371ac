"""The report of an audit: Markdown, figures and the HTML page."""
