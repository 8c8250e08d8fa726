"""The dashboard: pages over the verbs, at `/ui`.

```
site        the application: views, static files, errors, the content policy
page        one request of a view: the caller, the scope in the URL, calls of verbs, rendering
login       sessions: the login form, the cookie, CSRF tokens
charts      charts as SVG
views/      one module per view: a router of functions that call verbs and render a template
templates/  base.html, macros.html and one folder for the views
static/     the style sheet, a small script, and vendored libraries
```
"""
