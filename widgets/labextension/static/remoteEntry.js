(() => {
  let shared;
  const newest = (a, b) => b.localeCompare(a, undefined, { numeric: true });
  const load = async (name) => {
    const versions = shared[name];
    if (!versions) throw new Error(`sglab needs ${name}, which this page does not share`);
    return (await versions[Object.keys(versions).sort(newest)[0]].get())();
  };
  const make = (require, module, exports) => {"use strict";var F=Object.defineProperty;var qe=Object.getOwnPropertyDescriptor;var Ue=Object.getOwnPropertyNames;var Ve=Object.prototype.hasOwnProperty;var Je=(n,t)=>{for(var e in t)F(n,e,{get:t[e],enumerable:!0})},Xe=(n,t,e,o)=>{if(t&&typeof t=="object"||typeof t=="function")for(let r of Ue(t))!Ve.call(n,r)&&r!==e&&F(n,r,{get:()=>t[r],enumerable:!(o=qe(t,r))||o.enumerable});return n};var Ye=n=>Xe(F({},"__esModule",{value:!0}),n);var Nt={};Je(Nt,{default:()=>$t});module.exports=Ye(Nt);var E=require("@jupyterlab/application"),ze=require("@jupyterlab/apputils"),Ke=require("@jupyterlab/launcher"),Ge=require("@jupyterlab/notebook");var p=require("@jupyterlab/apputils");var ne={PageTable:"requests and pages of the pool, and the kernel that builds the arrays",SplitKV:"how the batch is cut into work, planner by planner",OnlineSoftmax:"m, d and O, tile by tile, and their merges",KernelDebugger:"source, registers and memory, step by step",WarpRoles:"every warp on a timeline, and who waits for whom",Barriers:"phases, arrivals and waiting warps",SharedMemory:"tiles, swizzles, bank conflicts",DraftTree:"draft trees, their masks, what is kept and moved",BackendExplorer:"what every attention backend would build, run, cost and refuse",SparseAttention:"which keys are chosen for which query, and the error of that",Experts:"tokens × experts, loads, padded blocks, EPLB's copies",Ranks:"collectives of several ranks, and who holds which weights",Scheduler:"requests over steps: what each batch was made of, and why",RadixTree:"shared prefixes: matches, splits, locks, evictions",Graph:"captured decode passes: padding, launches, fixed addresses",NanSpread:"which instruction made the first NaN, and where it went",Roofline:"FLOPs and bytes under a GPU's ceilings",Layout:"coordinates beside addresses and banks, or lanes and registers",TensorMemory:"128 lanes × 512 columns: whose, and what is in them"},oe=[{kind:"batch",title:"Batches"},{kind:"launch",title:"Launches"},{kind:"session",title:"Sessions"},{kind:"recording",title:"Recordings"},{kind:"run",title:"Runs of the engine"},{kind:"engine",title:"Engines"},{kind:"layout",title:"Layouts"},{kind:"points",title:"Points of a roofline"}];function v(n){return n.names[0]??`${n.kind} without a name`}function f(n){return n.split(/(?<=[a-z])(?=[A-Z])/).map((o,r)=>r&&/[a-z]/.test(o)?o.toLowerCase():o).join(" ").replace(/^Nan\b/,"NaN")}function re(n){return[...n].reverse().flatMap(t=>t.widgets.map(e=>({label:`${f(e)} on ${v(t)} (${t.title})`,thing:t,widget:e})))}function k(n){return[...n].reverse().find(t=>t.widgets.includes("KernelDebugger"))}function ie(n){let t=[...n].reverse().find(({kind:c})=>c==="batch"),e=k(n),o=e?void 0:[...n].reverse().find(({kind:c})=>c==="recording"),r=e??o,i=[],a=(c,u,h,g)=>c?.widgets.includes(u)?i.push({thing:c,widget:u,mode:h,beside:g})-1:g,d=a(t,"PageTable","tab-after",-1);a(e,"KernelDebugger","split-right",d);let l=a(t,"SplitKV","split-bottom",d);return a(r,"WarpRoles",l===d?"split-bottom":"tab-after",l),i}var Qe="# Debug a kernel\n\nRun the two cells below (Shift+Enter). The last line opens the debugger on a kernel that has not run yet: ▶| steps, ◀ goes back.\nThen put your own kernel in its place; no GPU is needed. CUDA C++ goes through `sglab.cuda(source)[grid, block]`, PTX through\n`sglab.ptx(text)[grid, block]`; Numba and CuTe DSL kernels work, too.",Ze=`import sglab
import torch
import triton
import triton.language as tl


@triton.jit
def scaled_sum(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    total = 2 * tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask)
    tl.store(out + at, total, mask=mask)


x, y, out = torch.randn(1000), torch.randn(1000), torch.empty(1000)`,et=`launch = sglab.step(scaled_sum[(4,)], x, y, out, 1000, BLOCK=256)
launch`,tt="The panel at the left (the symbol with four pages) lists `launch`, and opens every widget on it in a tab of its own: warps on a timeline,\nbarriers, shared memory. **Next finding** goes to what the sanitizers found.";function L(n,t,e){let o={id:n,metadata:{},source:t};return e?{...o,cell_type:"code",outputs:[],execution_count:null}:{...o,cell_type:"markdown"}}function se(n){return{cells:[L("welcome",Qe,!1),L("kernel",Ze,!0),L("step",et,!0),L("next",tt,!1)],metadata:{kernelspec:n},nbformat:4,nbformat_minor:5}}var A=require("@jupyterlab/apputils"),U=require("@lumino/widgets");function nt(n,t,e){for(let[o,r]of Object.entries(t))r===void 0||r===!1||n.setAttribute(o,r===!0?"":String(r));return n.append(...e.filter(o=>o!==void 0)),n}function s(n,t={},...e){return nt(document.createElement(n),t,e)}var j={page_table:b("#9467BD","dots"),load:b("#0072B2","forward"),mma:b("#E69F00","cross"),softmax:b("#009E73","horizontal"),epilogue:b("#17A2A2","backward"),correction:b("#7F9A2E","vertical"),math:b("#D55E00","grid"),compute:b("#D55E00","dots"),idle:b("#999999","none")},ot={copy:j.load,mma:j.mma,tmem:b("#CC79A7","vertical")};function b(n,t){return{fill:n,hatch:t,ink:ce(n)}}function ce(n){return ae(le(n),0)>=ae(le(n),1)?"#000000":"#ffffff"}function ae(n,t){return(Math.max(n,t)+.05)/(Math.min(n,t)+.05)}function le(n){let[t,e,o]=[1,3,5].map(r=>{let i=Number.parseInt(n.slice(r,r+2),16)/255;return i<=.04045?i/12.92:((i+.055)/1.055)**2.4});return .2126*t+.7152*e+.0722*o}var sn=new Intl.NumberFormat("en-US");var G={size:0,start:new Float64Array(0),end:new Float64Array(0),look:new Uint8Array(0),id:new Uint32Array(0)};var Wr={length:1,rows:[],looks:[],links:{size:0,fromRow:new Int32Array(0),fromX:new Float64Array(0),toRow:new Int32Array(0),toX:new Float64Array(0)},least:1,format:String,axis:"",barLabel:()=>""};function we(n,t){let{content:e,toolbar:o}=n;o.addClass("sglab-toolbar");let r=(d,l,c,u)=>{let h=s("button",{type:"button",class:"sglab-button",title:c},l);return h.addEventListener("click",u),o.addItem(d,new U.Widget({node:s("div",{class:"jp-ToolbarButton"},h)})),h},i=s("span",{class:"sglab-of"});o.addItem("of",new U.Widget({node:i})),r("notebook","Notebook","To the notebook that this widget belongs to",()=>t.commands.execute("docmanager:open",{path:e.args.path})),r("save","Save recording","Write it as a .sglab file, which opens without a kernel",()=>xt(e));let a=r("full-screen","Full screen","The whole screen; Esc leaves it",()=>V(n));return n.node.addEventListener("fullscreenchange",()=>{a.textContent=document.fullscreenElement===n.node?"Leave full screen":"Full screen"}),d=>{i.textContent=i.title=d.split("/").pop()??""}}function V(n){document.fullscreenElement?document.exitFullscreen():n.node.requestFullscreen().catch(()=>A.Notification.error("The browser does not let this page use the whole screen."))}async function xt({model:n,notebook:t}){try{if(!n||!t)throw new Error("There is no widget in this tab yet, so there is nothing to save.");let{path:e,folder:o}=await t.ask("save",{model:n});A.Notification.info(`Saved ${e} in ${o}`,{autoClose:8e3})}catch(e){A.Notification.error(e instanceof Error?e.message:String(e),{autoClose:!1})}}var m={debug:"sglab:debug-kernel",openOn:"sglab:open-widget-on",nextFinding:"sglab:next-finding",arrange:"sglab:arrange",fullScreen:"sglab:full-screen",restore:"sglab:restore-tab"};function ve({app:n,tabs:t,icon:e,labShell:o,focus:r}){let{commands:i}=n,a=()=>r()?.things??[],d=l=>p.Notification.info(`${l} Run cells that make one first.`,{autoClose:6e3});i.addCommand(m.debug,{label:"Debug a kernel",caption:"The debugger on the notebook's newest launch; without one, a notebook to begin with",icon:e,execute:async({cwd:l})=>{let[c,u]=[r(),k(a())];return c&&u&&l===void 0?t.open(c,u,"KernelDebugger"):c?.busy&&l===void 0?p.Notification.info("Cells of this notebook still run. Debug a kernel once they have made a launch.",{autoClose:6e3}):St(n,typeof l=="string"?l:"")}}),i.addCommand(m.openOn,{label:"Open a widget on…",caption:"Choose what to look at, and how",execute:async()=>{let l=r(),c=re(a());if(!l||!c.length)return d("No batch, launch, session or recording is there to look at.");let u=c.map(({label:x})=>x),{button:h,value:g}=await p.InputDialog.getItem({title:"Open a widget on…",items:u,okLabel:"Open"}),y=h.accept?c.find(({label:x})=>x===g):void 0;return y&&t.open(l,y.thing,y.widget)}}),i.addCommand(m.nextFinding,{label:"Next finding",caption:"Moves the launch to the next thing that its sanitizers found",execute:async()=>{let l=r(),c=H(n,t)?.content.thing,u=c?.widgets.includes("KernelDebugger")?c:k(a());if(!l||!u)return d("No launch or session is there to look for findings in.");try{let h=await l.ask("next_finding",{thing:u.number});return Tt(h.said)}catch(h){return p.Notification.error(h instanceof Error?h.message:String(h),{autoClose:!1})}}}),i.addCommand(m.arrange,{label:"Arrange page table, plan, timeline and debugger",caption:"As in a debugger; on the newest batch and launch",execute:()=>{let l=r(),c=ie(a());if(!l||!c.length)return d("No batch or launch is there to arrange.");o?.collapseLeft();let u=[];for(let{thing:h,widget:g,mode:y,beside:x}of c){let te=u[x]??l.panel.id;u.push(t.open(l,h,g,y?{mode:y,ref:te}:{ref:te}).id)}}}),i.addCommand(m.fullScreen,{label:"Full screen",caption:"The focused sglab tab on the whole screen; Esc leaves it",execute:()=>{let l=H(n,t);l&&V(l)}}),i.addCommand(m.restore,{execute:l=>t.add(l,void 0,{activate:!1})})}var kt=140,P;function Tt(n){P!==void 0&&p.Notification.dismiss(P);let t=()=>{(0,p.showDialog)({title:"Finding",body:n,buttons:[p.Dialog.okButton()]})},e=n.length>kt?[{label:"Whole text",callback:t}]:void 0;return P=p.Notification.info(n,{autoClose:12e3,actions:e}),P}function xe(n){for(let t of Object.values(m))t!==m.restore&&n.addItem({command:t,category:"sglab"})}function H(n,t){let{current:e}=t;return(t.below?e?.isVisible:e===n.shell.currentWidget)?e:null}async function St({serviceManager:n,commands:t},e){let{contents:o,kernelspecs:r}=n,i=r.specs?.default??"python3",a=r.specs?.kernelspecs[i],d={name:i,display_name:a?.display_name??i,language:a?.language??"python"},{path:l}=await o.newUntitled({path:e,type:"notebook"});return await o.save(l,{type:"notebook",format:"json",content:se(d)}),t.execute("docmanager:open",{path:l})}var ke=require("@jupyterlab/ui-components"),Te=`<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">
<g class="jp-icon3" fill="#616161"><path d="M1 1h6v6H1zm1.2 1.2v3.6h3.6V2.2zM9 1h6v6H9zm1.2 1.2v3.6h3.6V2.2zM1 9h6v6H1zm1.2 1.2v3.6h3.6v-3.6z"/>
<path d="M9 9h6v6H9z"/></g></svg>`,w=new ke.LabIcon({name:"sglab:icon",svgstr:Te}),Se=`data:image/svg+xml,${encodeURIComponent(Te)}`;var Me=`.sglab-panel {
  overflow-y: auto;
  padding: 8px 10px 16px;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font: 13px / 1.4 var(--jp-ui-font-family);
}
.sglab-head {
  display: flex;
  gap: 8px;
  align-items: baseline;
  white-space: nowrap;
}
.sglab-head span {
  flex: 1;
  min-width: 0;
  overflow: hidden;
  text-overflow: ellipsis;
  color: var(--jp-ui-font-color2);
}
.sglab-panel h3 {
  margin: 14px 0 4px;
  font-size: 11px;
  font-weight: 600;
  letter-spacing: 0.04em;
  text-transform: uppercase;
  color: var(--jp-ui-font-color2);
}
.sglab-panel ul {
  margin: 0;
  padding: 0;
  list-style: none;
}
.sglab-panel pre {
  margin: 6px 0;
  padding: 6px 8px;
  overflow-x: auto;
  border: 1px solid var(--jp-border-color2);
  background: var(--jp-layout-color2);
  font: 12px / 1.5 var(--jp-code-font-family);
}
.sglab-panel code {
  font: 600 12px / 1.4 var(--jp-code-font-family);
}
.sglab-thing {
  padding: 6px 0 8px;
  border-top: 1px solid var(--jp-border-color2);
}
.sglab-title {
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}
.sglab-muted {
  color: var(--jp-ui-font-color2);
  font-size: 12px;
}
.sglab-said {
  margin: 10px 0 6px;
}
.sglab-opens,
.sglab-actions {
  display: flex;
  flex-wrap: wrap;
  gap: 4px;
  margin-top: 6px;
}
.sglab-button {
  padding: 2px 8px;
  border: 1px solid var(--jp-border-color1);
  border-radius: 3px;
  background: var(--jp-layout-color2);
  color: var(--jp-ui-font-color1);
  font: 12px / 18px var(--jp-ui-font-family);
  cursor: pointer;
}
.sglab-button:hover {
  border-color: var(--jp-brand-color1);
}
.sglab-button:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: 1px;
}
.jp-Toolbar.sglab-toolbar {
  height: 26px;
  min-height: 26px;
  padding: 1px 2px;
}
.sglab-toolbar .sglab-button {
  border-color: transparent;
  background: none;
  line-height: 16px;
}
.sglab-toolbar .sglab-button:hover {
  border-color: var(--jp-border-color1);
}
.sglab-of {
  padding: 0 8px;
  color: var(--jp-ui-font-color2);
  line-height: 20px;
}
.sglab-tab,
.sglab-recording {
  overflow: auto;
  background: var(--jp-layout-color1);
}
.sglab-tab {
  container: sg-host / size; /* core.css asks how high it is */
  --sg-max-height: max(420px, 100cqh); /* as high as the tab, however it is docked */
}
.sglab-tab .sg-widget,
.sglab-recording .sg-widget {
  border: 0;
  border-radius: 0;
}
.sglab-recording > div + div {
  border-top: 1px solid var(--jp-border-color1);
}
.sglab-says {
  max-width: 60ch;
  margin: 48px auto;
  padding: 0 16px;
  color: var(--jp-ui-font-color1);
  font: 14px / 1.5 var(--jp-ui-font-family);
}
.sglab-tab .jupyter-widgets {
  margin: 0;
}
/* On the whole screen the tab is out of the dock, whose sizes its parts would keep. */
.jp-MainAreaWidget:fullscreen:has(> .sglab-tab) {
  display: flex;
  flex-direction: column;
  background: var(--jp-layout-color1);
}
.jp-MainAreaWidget:fullscreen:has(> .sglab-tab) > .lm-Widget {
  /* biome-ignore lint/complexity/noImportantStyles: over the sizes that Lumino writes on the elements */
  position: relative !important;
  /* biome-ignore lint/complexity/noImportantStyles: over the sizes that Lumino writes on the elements */
  inset: auto !important;
  /* biome-ignore lint/complexity/noImportantStyles: over the sizes that Lumino writes on the elements */
  width: 100% !important;
}
.jp-MainAreaWidget:fullscreen > .lm-Widget.sglab-tab {
  flex: 1;
  /* biome-ignore lint/complexity/noImportantStyles: over the sizes that Lumino writes on the elements */
  height: auto !important;
  min-height: 0;
}
/* What ipywidgets says where a notebook has no kernel yet: the stored picture above it says so better. */
.jp-OutputArea-child:has([class^="sglab-"] > img)
+ .jp-OutputArea-child:has(> .jp-OutputArea-output.jupyter-widgets) {
  display: none;
}
/* biome-ignore-start lint/complexity/noImportantStyles: JupyterLab places its parts by inline styles */
@media print {
  body:has(.sglab-printed) :not(:has(.sglab-printed), .sglab-printed, .sglab-printed *) {
    display: none !important;
  }
  .sglab-printed,
  :has(.sglab-printed) {
    position: static !important;
    display: block !important;
    width: auto !important;
    height: auto !important;
    min-height: 0 !important;
    overflow: visible !important;
    contain: none !important;
  }
}
/* biome-ignore-end lint/complexity/noImportantStyles: JupyterLab places its parts by inline styles */
`;var X=require("@lumino/signaling");var T=class extends Error{};function Ee(n,t){let e=Object.entries(t).map(([r,i])=>`, ${r}=${JSON.stringify(i)}`);return`${`__import__("sglab.jupyterlab", fromlist=["answer"]).answer("${n}"${e.join("")})`} if "sglab" in __import__("sys").modules else None`}function Le(n){let t=n;if(t?.status==="error")throw t.ename==="ModuleNotFoundError"?new Error("This kernel's sglab is older than the JupyterLab extension. Install one version of both."):new Error(`${t.ename}: ${t.evalue}`);let e=t?.data?.["application/json"];if(!e)throw new T;if(e.protocol!==1)throw new Error(`This kernel's sglab speaks version ${e.protocol} of what the extension speaks version 1 of. Install one version of both, restart the kernel and reload the page.`);if(e.error!==void 0)throw new Error(e.error);return e}var J="This notebook has no kernel.",Et="sglab speaks to Python kernels only; this one runs another language.",Ce="This notebook has not imported sglab yet.",Y=class{constructor(t){this.panel=t;this.#t=t.sessionContext,this.#t.kernelChanged.connect(this.#a),this.#t.statusChanged.connect(this.#c),this.#t.iopubMessage.connect(this.#s),t.disposed.connect(()=>X.Signal.clearData(this)),this.refresh()}panel;changed=new X.Signal(this);state=null;generation=0;#e=!1;#n=!0;#t;get path(){return this.panel.context.path}get kernel(){return this.panel.isDisposed?null:this.#t.session?.kernel??null}get busy(){return this.kernel?.status==="busy"}get things(){return this.state?.kind==="things"?this.state.things:[]}async ask(t,e){let o=this.kernel;if(!o)throw new Error(J);let r="pass",i={answer:Ee(t,e)};for(;;){let a=await o.requestExecute({code:r,silent:!0,store_history:!1,allow_stdin:!1,stop_on_error:!1,user_expressions:i}).done;if(a?.content.status!=="aborted")return Le(a?.content.user_expressions?.answer)}}async refresh(){if(this.#n=!0,!this.#e){this.#e=!0;try{for(;this.#n;){this.#n=!1;let t=this.generation,e=await this.#o();t===this.generation&&this.#r(e)}}finally{this.#e=!1}}}async#o(){await this.#t.ready;let t=this.kernel;if(!t)return{kind:"no kernel",text:J};try{return(await t.info).language_info.name!=="python"?{kind:"other language",text:Et}:{kind:"things",things:(await this.ask("list",{})).things}}catch(e){return e instanceof T?{kind:"not imported",text:Ce}:{kind:"error",text:e instanceof Error?e.message:String(e)}}}#r(t){this.panel.isDisposed||JSON.stringify(t)===JSON.stringify(this.state)||(this.state=t,this.changed.emit())}#i=!1;#s=(t,e)=>{e.header.msg_type==="execute_input"&&(this.#i=!0)};#c=(t,e)=>{(e==="restarting"||e==="autorestarting")&&this.#a(),!(e!=="idle"||!this.#i)&&(this.#i=!1,this.refresh())};#a=()=>{this.generation+=1,this.#i=!0,this.#e=!1,this.#r(this.kernel?{kind:"not imported",text:Ce}:{kind:"no kernel",text:J})}},Re=new WeakMap;function S(n){let t=Re.get(n)??new Y(n);return Re.set(n,t),t}var Pe=require("@lumino/widgets");var Lt="No notebook is open. Open one, or begin with a kernel to debug.",Ct="Nothing to look at yet. Give a name to a batch, a launch, a session or a recording, and it is listed here:",Rt=`batch = sglab.decode_batch([300, 77], num_heads=128)
launch = sglab.step(my_kernel[grid], x, y)`,I=class extends Pe.Widget{constructor(e){super();this.events=e;this.id="sglab-panel",this.addClass("sglab-panel"),this.node.setAttribute("aria-label","sglab"),this.#n()}events;#e=null;follow(e){e!==this.#e&&(this.#e?.changed.disconnect(this.#n),this.#e=e,e?.changed.connect(this.#n),this.#n())}#n=()=>{let e=this.#e?.state??null,o=this.#e?.path.split("/").pop()??"";this.node.replaceChildren(s("header",{class:"sglab-head"},s("strong",{},"sglab"),s("span",{title:o},o)),...this.#e?this.#t(e):[M(Lt),this.#s()])};#t(e){if(!e)return[M("Asking the kernel …")];if(e.kind==="not imported")return[M(`${e.text} Run a cell with:`),Ae("import sglab")];if(e.kind!=="things")return[M(e.text)];if(!e.things.length)return[M(Ct),Ae(Rt),this.#s()];let o=oe.flatMap(({kind:r,title:i})=>{let a=e.things.filter(d=>d.kind===r);return a.length?[this.#r(i,a)]:[]});return[this.#o(e.things),...o]}#o(e){let o=O("Arrange as a debugger","Page table, plan and timeline left, debugger right");o.addEventListener("click",this.events.arrange);let r=O("Next finding","To the next thing that the sanitizers found");r.addEventListener("click",this.events.nextFinding);let i=e.some(({widgets:a})=>a.includes("KernelDebugger"));return s("div",{class:"sglab-actions"},o,i?r:void 0)}#r(e,o){return s("section",{},s("h3",{},e),s("ul",{},...o.map(r=>this.#i(r))))}#i(e){let o=e.widgets.map(i=>{let a=O(f(i),`${f(i)}: ${ne[i]??""}`);return a.addEventListener("click",()=>this.events.open(e,i)),a}),r=e.names.length>1?` = ${e.names.slice(1).join(" = ")}`:"";return s("li",{class:"sglab-thing"},s("div",{},s("code",{},v(e)),s("span",{class:"sglab-muted"},r)),s("div",{class:"sglab-title",title:At(e)},e.title),s("div",{class:"sglab-muted"},e.detail),s("div",{class:"sglab-opens",role:"group","aria-label":`Open on ${v(e)}`},...o))}#s(){let e=O("Debug a kernel","A notebook with a small Triton kernel to write your own over");return e.addEventListener("click",this.events.debug),s("div",{class:"sglab-actions"},e)}};function At({title:n,whole:t=""}){return n.includes(t)?n:`${n}
${t}`}function M(n){return s("p",{class:"sglab-said",role:"status"},n)}function Ae(n){return s("pre",{},n)}function O(n,t){return s("button",{type:"button",class:"sglab-button",title:t},n)}var Q="sglab-printed";function He(n){window.addEventListener("beforeprint",()=>n()?.querySelector(".sglab-tab, .sglab-recording")?.classList.add(Q)),window.addEventListener("afterprint",()=>document.querySelector(`.${Q}`)?.classList.remove(Q))}var De=require("@jupyterlab/apputils"),$e=require("@jupyterlab/coreutils"),$=require("@jupyterlab/docregistry"),Ne=require("@lumino/widgets");function Oe(n){let t;try{t=JSON.parse(n)}catch{throw new Error("This file is no recording of sglab: it is not JSON, or was cut short. Save the widget again.")}if(t?.sglab!=="recording"||!Array.isArray(t.widgets))throw new Error('This file is no recording of sglab. widget.save("name.sglab") writes one.');if(t.format!==1)throw new Error(`This recording has format ${t.format}; this JupyterLab extension reads format 1. Open it with the sglab that wrote it, or save it again with one version.`);for(let e of t.widgets)if(typeof e?.widget!="string"||!/^[a-z_]+$/.test(e.widget)||typeof e.state!="object")throw new Error("This recording holds something that is no widget. Save it again.");if(!t.widgets.length)throw new Error("This recording holds no widget. Save it again.");for(let{widget:e,state:o,tensors:r}of t.widgets)if(typeof o?.header?.title!="string"||typeof r!="object"||r===null)throw new Error(`This recording lacks what its ${e} is drawn from: it is damaged. Save the widget again.`);return{title:String(t.title??"sglab"),widgets:t.widgets}}function Ie(n){return`${$e.PageConfig.getOption("fullLabextensionsUrl")}/sglab/static/widgets/${n}?v=0.1.0`}var Z=new Map;function Pt(n){let t=Z.get(n);if(t)return t;let e=Ht(n);return Z.set(n,e),e.catch(()=>Z.delete(n)),e}async function Ht(n){document.head.append(s("link",{rel:"stylesheet",href:Ie(`${n}.css`)}));try{await import(Ie(`${n}.js`))}catch{throw new Error(`This sglab has no widget ${n}, which the recording was made of. A newer sglab may have: pip install -U sglab.`)}return globalThis[Symbol.for("sglab.widgets.v1")]?.[n]}var ee=class extends Ne.Widget{constructor(e){super();this.context=e;this.addClass("sglab-recording"),e.ready.then(()=>{this.#n(),e.model.contentChanged.connect(()=>{this.#n()})},()=>this.#t("The file could not be read."))}context;#e=[];async#n(){try{let{title:e,widgets:o}=Oe(this.context.model.toString()),r=await Promise.all(o.map(({widget:i})=>Pt(i)));if(this.isDisposed)return;this.#o(),this.title.caption=e,this.#e=o.map((i,a)=>{let d=s("div",{});return this.node.append(d),r[a](d,i)})}catch(e){this.#t(e instanceof Error?e.message:String(e))}}#t(e){this.isDisposed||(this.#o(),this.node.append(s("div",{class:"sglab-says",role:"alert"},s("p",{},e))))}#o(){for(let e of this.#e)e();this.#e=[],this.node.replaceChildren()}dispose(){this.isDisposed||(this.#o(),super.dispose())}},D=class extends $.ABCWidgetFactory{createNewWidget(t){let e=new $.DocumentWidget({content:new ee(t),context:t});return e.title.icon=w,e}};function We(n,t){let e=new De.WidgetTracker({namespace:"sglab-recordings"});n.widgetCreated.connect((o,r)=>{r.context.pathChanged.connect(()=>{e.save(r)}),e.add(r)}),t.restore(e,{command:"docmanager:open",args:({context:o})=>({path:o.path,factory:"sglab recording"}),name:({context:o})=>o.path})}var _=require("@jupyterlab/apputils");var Fe=require("@jupyterlab/rendermime"),je=require("@lumino/widgets");var _e="application/vnd.jupyter.widget-view+json",N=class extends je.Panel{constructor(e,o,r){super();this.args=e;this.events=r;this.addClass("sglab-tab"),this.#e=o?.number,this.node.addEventListener("focus",this.#h),this.#l(`Looking for the notebook ${e.path} …`)}args;events;#e;#n=null;#t=null;#o=-1;#r=!1;get label(){let e=this.args.name??"";return e?`${f(this.args.widget)}: ${e}`:f(this.args.widget)}get notebook(){return this.#t}get model(){return this.#n&&this.#o===this.#t?.generation?this.args.model:void 0}shows(e,o,r){let i=this.#e===r.number||this.args.name!==null&&r.names.includes(this.args.name);return this.args.path===e&&this.args.widget===o&&i}get thing(){let e=this.#t?.things??[],{name:o}=this.args;return e.find(({names:r})=>o!==null&&r.includes(o))??e.find(({number:r})=>this.#o===this.#t?.generation&&r===this.#e)}get#i(){let{thing:e}=this;return this.#e!==void 0&&e!==void 0&&e.number!==this.#e}connect(e){this.#t===e||this.isDisposed||(this.#t=e,this.#e!==void 0&&(this.#o=e.generation),e.changed.connect(this.#a),e.panel.disposed.connect(this.#c),e.panel.context.pathChanged.connect(this.#s),this.#a())}#s=(e,o)=>{this.isDisposed||(this.args.path=o,this.events.moved())};#c=()=>{this.#t=null,this.#d(),this.#l(`The notebook ${this.args.path} was closed. Open it to bring this widget back.`)};#a=()=>{let e=this.#t;!e||this.isDisposed||this.#r||this.#n&&this.#o===e.generation&&!this.#i||(e.state?e.state.kind==="things"?this.#m(e):this.#n||this.#u(e.state.text):this.#l("Asking the kernel …"))};#u(e=""){let{name:o,widget:r}=this.args;o?this.#l(`${e} ${f(r)} opens here as soon as the notebook has ${o}.`.trim(),{text:"Run its cells",run:this.events.runCells}):this.#l(`${e} ${f(r)} was opened on something without a name; open it again from the panel.`.trim())}async#m(e){this.#r=!0;try{let o=this.model,r=await this.#p(e);if(this.isDisposed||this.#t!==e)return;if(r){await this.#g(r,e),o&&o!==r&&(await e.ask("close",{model:o}),e.refresh());return}this.#n||this.#u()}catch(o){let r=o instanceof Error?o.message:String(o);this.#l(r,{text:"Try again",run:this.#a})}finally{this.#r=!1}}async#p(e){let{model:o,widget:r}=this.args;if(o&&this.#e===void 0){let a=await e.ask("view",{model:o});if(a.model)return this.#e=this.thing?.number,a.model}let{thing:i}=this;return i?(this.#e=i.number,this.#n||this.#l(`Opening ${f(r)} on ${v(i)} …`),(await e.ask("open",{thing:i.number,widget:r})).model):null}async#g(e,o){this.#d();let r=o.panel.content.rendermime.createRenderer(_e),i={[_e]:{version_major:2,version_minor:0,model_id:e}};this.node.replaceChildren(),this.addWidget(r),this.#n=r,this.#o=o.generation,this.args.model=e,this.events.changed(),await r.renderModel(new Fe.MimeModel({data:i,trusted:!0})),await this.#f(r),this.#h()}#h=()=>{document.activeElement===this.node&&this.node.querySelector(".sg-widget")?.focus({preventScroll:!0})};#f(e){return new Promise(o=>{let r=()=>{this.#n===e&&!this.node.querySelector(".sg-widget")||(i.disconnect(),o())},i=new MutationObserver(r);i.observe(this.node,{childList:!0,subtree:!0}),r()})}#d(){this.#n?.dispose(),this.#n=null}#l(e,o){this.#d();let r=s("button",{type:"button",class:"sglab-button"},o?.text);r.addEventListener("click",()=>o?.run()),this.node.replaceChildren(s("div",{class:"sglab-says",role:"status"},s("p",{},e),o?r:void 0))}dispose(){if(this.isDisposed)return;let{model:e}=this;this.#t?.changed.disconnect(this.#a),this.#t?.panel.context.pathChanged.disconnect(this.#s),e&&this.#t?.ask("close",{model:e}).catch(()=>{}),this.#d(),super.dispose()}};var Be=0,W=class{constructor(t,e,o,r){this.app=t;this.notebooks=e;this.icon=o;this.area=r;e.widgetAdded.connect((i,a)=>this.#o(a))}app;notebooks;icon;area;#e=new _.WidgetTracker({namespace:"sglab"});#n=new Map;get current(){return this.#e.currentWidget}get below(){return this.area==="down"}open(t,e,o,r={}){let i=this.#e.find(({content:d})=>d.shows(t.path,o,e));if(i)return r.mode&&this.app.shell.add(i,this.area,r),this.app.shell.activateById(i.id),i;let a={path:t.path,widget:o,name:e.names[0]??null};return this.add(a,e,r.mode?r:{...r,ref:t.panel.id,mode:"tab-after"})}addBeside(t,e){let o=this.#n.get(t.path),r=o&&!o.isDisposed?{ref:o.id,mode:"tab-after"}:{ref:t.panel.id,mode:"split-right"};this.#n.set(t.path,this.add(e,void 0,r))}add(t,e,o={}){let r=new N({...t},e,{changed:()=>{this.#e.save(i)},moved:()=>{d(),this.#e.save(i)},runCells:()=>{this.#t(r.args.path)}}),i=new _.MainAreaWidget({content:r});Be+=1,i.id=`sglab-tab-${Be}`,i.title.label=r.label,i.title.icon=this.icon,i.title.closable=!0;let a=we(i,this.app),d=()=>{i.title.caption=`${r.label} (${r.args.path})`,a(r.args.path)};d(),this.app.shell.add(i,this.area,o),this.#e.add(i);let l=this.panelOf(t.path);return l&&r.connect(S(l)),this.app.shell.activateById(i.id),this.below&&Ot(i),i}panelOf(t){return this.notebooks.find(({context:e})=>e.path===t)}restore(t,e){t.restore(this.#e,{command:e,args:({content:o})=>({...o.args}),name:({content:o,id:r})=>`${o.args.path}:${o.args.widget}:${o.args.name??r}`})}async#t(t){await this.app.commands.execute("docmanager:open",{path:t}),await this.panelOf(t)?.sessionContext.ready,await this.app.commands.execute("notebook:run-all-cells")}#o(t){this.#e.forEach(({content:e})=>{e.args.path===t.context.path&&e.connect(S(t))})}};function Ot(n){let t=n;for(;t&&!t.setRelativeSizes;)t=t.parent;(t?.relativeSizes?.()[1]??1)<.2&&t?.setRelativeSizes?.([.5,.5])}var It={id:"sglab:workbench",description:"Lists what a notebook's kernel has, and opens widgets on it in tabs.",autoStart:!0,requires:[Ge.INotebookTracker],optional:[E.ILabShell,E.ILayoutRestorer,ze.ICommandPalette,Ke.ILauncher],activate:(n,t,e,o,r,i)=>{let a=new W(n,t,w,e?"main":"down"),d=()=>{let u=H(n,a)?.content.args.path,h=(u===void 0?void 0:a.panelOf(u))??t.currentWidget;return h?S(h):null};ve({app:n,tabs:a,icon:w,labShell:e,focus:d}),r&&xe(r),i?.add({command:m.debug,category:"Notebook",rank:1e3,kernelIconUrl:Se}),o&&a.restore(o,m.restore),document.addEventListener("sglab:open",u=>{let h=d();if(!h||!(u instanceof CustomEvent))return;let{widget:g,model:y}=u.detail;a.addBeside(h,{path:h.path,widget:g,name:null,model:y}),u.preventDefault()}),He(()=>n.shell.currentWidget?.node);let l=new I({open:(u,h)=>{let g=d();g&&a.open(g,u,h)},debug:()=>{n.commands.execute(m.debug)},arrange:()=>{n.commands.execute(m.arrange)},nextFinding:()=>{n.commands.execute(m.nextFinding)}});l.title.icon=w,l.title.caption="sglab: batches, launches, sessions and recordings",n.shell.add(l,"left",{rank:350}),o?.add(l,l.id);let c=()=>l.follow(d());t.currentChanged.connect(c),n.shell.currentChanged?.connect(c),n.restored.then(c)}},Dt={id:"sglab:recordings",description:"Opens .sglab files without a kernel.",autoStart:!0,optional:[E.ILayoutRestorer],activate:({docRegistry:n},t)=>{n.addFileType({name:"sglab",displayName:"sglab recording",extensions:[".sglab"],mimeTypes:["application/vnd.sglab+json"],contentType:"file",fileFormat:"text",icon:w});let e=new D({name:"sglab recording",modelName:"text",fileTypes:["sglab"],defaultFor:["sglab"],readOnly:!0});n.addWidgetFactory(e),t&&We(e,t)}};document.head.append(Object.assign(document.createElement("style"),{textContent:Me}));var $t=[It,Dt];};
  const needed = ["@jupyterlab/application","@jupyterlab/apputils","@jupyterlab/coreutils","@jupyterlab/docregistry","@jupyterlab/launcher","@jupyterlab/notebook","@jupyterlab/rendermime","@jupyterlab/ui-components","@lumino/signaling","@lumino/widgets"];
  (globalThis._JUPYTERLAB ??= {}).sglab = {
    init: (scope) => { shared = scope; },
    get: async () => {
      const parts = Object.fromEntries(await Promise.all(needed.map(async (name) => [name, await load(name)])));
      const module = { exports: {} };
      make((name) => parts[name], module, module.exports);
      return () => module.exports;
    },
  };
})();
