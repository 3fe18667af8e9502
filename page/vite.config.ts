import {defineConfig} from 'vite';

export default defineConfig({
  esbuild: {jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'inline'},
  // A program serves the files at its root. They hold no inline script, style or data.
  build: {target: 'es2022', assetsInlineLimit: 0, modulePreload: {polyfill: false}},
});
