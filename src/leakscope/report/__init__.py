"""The toolkit for reports: pages, charts, tables, figures, previews."""
