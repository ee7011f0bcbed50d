"""The style sheet of the HTML page. Contrast is at least 4.5:1 in both schemes (WCAG 2.2, 1.4.3)."""

STYLE = """\
:root { color-scheme: light dark; --ink: #1b2330; --faint: #5a6472; --ground: #ffffff; --panel: #f4f6f8;
  --line: #d5dae0; --good: #1d6b3f; --bad: #a3141a; --bad-ground: #fdf1f1; --note: #fff8e6; --bar: #4a78b5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --faint: #a3adb9; --ground: #14181d; --panel: #1f252c; --line: #39424d; --good: #7fd1a3;
    --bad: #ff9a96; --bad-ground: #2c1a1c; --note: #2b2618; --bar: #7aa5de; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 10px; }
h3 { font-size: 15px; margin: 0 0 6px; } p { margin: 0 0 8px; }
.lead { font-size: 17px; } .faint { color: var(--faint); }
.cards { display: flex; flex-wrap: wrap; gap: 10px; margin: 14px 0; }
.card { background: var(--panel); border-radius: 8px; padding: 10px 16px; min-width: 130px; color: var(--faint); }
.card b { display: block; font-size: 22px; color: var(--ink); } .card.good b { color: var(--good); }
.card.bad b { color: var(--bad); }
.note { background: var(--note); border-radius: 8px; padding: 4px 18px 10px; margin: 18px 0; }
.note h2 { margin: 8px 0; font-size: 16px; } ul, ol { margin: 0; padding-left: 22px; }
.refusal { border-left: 4px solid var(--bad); background: var(--bad-ground); border-radius: 0 8px 8px 0;
  padding: 12px 16px; margin: 0 0 12px; overflow-wrap: anywhere; }
.refusal h3 { color: var(--bad); } .fit { font-weight: 600; margin: 8px 0 2px; } .refusal ul { margin-bottom: 8px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
caption { text-align: left; color: var(--faint); padding-bottom: 6px; }
th, td { text-align: left; padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th, td { overflow-wrap: break-word; max-width: 300px; } tbody th { font-weight: 600; min-width: 110px; }
tr.refused td, tr.refused th { color: var(--bad); }
.bar { display: inline-block; width: 70px; height: 9px; background: var(--line); border-radius: 5px; overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--bar); }
figure.node { margin: 0 0 18px; border: 1px solid var(--line); border-radius: 8px; overflow-x: auto;
  background: #ffffff; }
figure.node svg { display: block; max-width: 100%; height: auto; }
details { border-bottom: 1px solid var(--line); padding: 6px 0; overflow-wrap: anywhere; }
summary { cursor: pointer; font-weight: 600; } details ol, details dl { margin: 8px 0; }
details h3 { margin-top: 10px; } dt { font-weight: 600; } dd { margin: 0 0 8px 18px; }
"""
