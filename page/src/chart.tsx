// Lines over time, drawn by uPlot.

import {useEffect, useRef} from 'preact/hooks';
import uPlot from 'uplot';

export interface Line {
  slot: number;
  values: (number | null)[];
}

interface Props {
  label: string; // what a screen reader says of it
  times: number[];
  lines: Line[];
  most: number; // of the axis
  ticks: number[];
  show: (value: number) => string;
  chosen: number | null; // slot of the line that is emphasised
}

const HEIGHT = 132;
const FAINT = '55'; // of 'ff', behind a colour of six digits

/** Returns the times of an axis as a clock shows them; to the second where it covers little time. */
function clock(times: number[], seconds: number): string[] {
  const fine = seconds < 600 ? {second: '2-digit' as const} : {};
  const format = new Intl.DateTimeFormat(undefined, {
    hour: '2-digit', minute: '2-digit', ...fine, hourCycle: 'h23',
  });
  return times.map((time) => format.format(time * 1000));
}

function color(element: Element, name: string): string {
  return getComputedStyle(element).getPropertyValue(name).trim();
}

function options(element: HTMLElement, props: Props): uPlot.Options {
  const text = color(element, '--quiet');
  const grid = {stroke: color(element, '--line'), width: 1};
  const font = '11px system-ui, sans-serif';
  const axis = {stroke: text, font, grid, ticks: {show: false}};
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, 12, 0, 0],
    legend: {show: false},
    cursor: {show: false},
    scales: {y: {range: [0, props.most]}},
    axes: [
      {
        ...axis, grid: {show: false}, space: 84, size: 24,
        values: (plot, times) => clock(times, (plot.scales['x']!.max ?? 0) - (plot.scales['x']!.min ?? 0)),
      },
      {...axis, size: 56, splits: () => props.ticks, values: (_, values) => values.map(props.show)},
    ],
    series: [
      {},
      ...props.lines.map(({slot}) => {
        const own = color(element, `--s${slot % 8}`);
        const faint = props.chosen !== null && props.chosen !== slot;
        const width = props.chosen === slot ? 2.5 : 1.75;
        const dash = slot >= 8 ? {dash: [6, 3]} : {};
        return {stroke: faint ? own + FAINT : own, width, ...dash, points: {show: false}};
      }),
    ],
  };
}

/** Draws the lines in what room there is. Begins again when what is fixed changes. */
export function Chart(props: Props) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data: uPlot.AlignedData = [props.times, ...props.lines.map((line) => line.values)];
  const latest = useRef({props, data});
  latest.current = {props, data};
  const fixed = [props.most, props.chosen, ...props.lines.map((line) => line.slot)].join(' ');

  useEffect(() => {
    const room = element.current!;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(room, latest.current.props), latest.current.data, room);
    };
    draw();
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const sized = new ResizeObserver(() => {
      plot.current?.setSize({width: room.clientWidth, height: HEIGHT});
    });
    dark.addEventListener('change', draw);
    sized.observe(room);
    return () => {
      dark.removeEventListener('change', draw);
      sized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [fixed]);

  useEffect(() => plot.current?.setData(data), [props.times.at(-1), fixed]);

  return <div class="chart" role="img" aria-label={props.label} ref={element} />;
}
